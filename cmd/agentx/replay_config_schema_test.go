package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const publishedSchema = "../../doc/replay-config.schema.json"

// The published schema is the one that the command prints: agentx replay --config-schema > doc/replay-config.schema.json.
func TestPublishedSchemaIsThatOfTheCommand(t *testing.T) {
	published, err := os.ReadFile(publishedSchema)
	require.NoError(t, err)
	require.True(t, string(published) == agentx(t, "replay", "--config-schema"), "make it again: go run ./cmd/agentx replay --config-schema > doc/replay-config.schema.json")
}

// readSchema returns the published schema.
func readSchema(t *testing.T) (*jsonschema.Schema, *jsonschema.Resolved) {
	published, err := os.ReadFile(publishedSchema)
	require.NoError(t, err)
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal(published, &schema))
	resolved, err := schema.Resolve(nil)
	require.NoError(t, err)
	return &schema, resolved
}

// allows reports whether a schema allows a YAML document.
func allows(t *testing.T, schema *jsonschema.Resolved, document string) bool {
	var v any
	require.NoError(t, yaml.Unmarshal([]byte(document), &v))
	text, err := json.Marshal(v)
	require.NoError(t, err)
	var instance any
	require.NoError(t, json.Unmarshal(text, &instance))
	return schema.Validate(instance) == nil
}

// The example of the documentation can be read, and says what it says there.
func TestExampleOfTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../doc/replay.md")
	require.NoError(t, err)
	_, text, _ = bytes.Cut(text, []byte("\n## Configuration\n"))
	_, text, ok := bytes.Cut(text, []byte("\n\n    preset: "))
	require.True(t, ok)
	text, _, _ = bytes.Cut(text, []byte("\n\n"))
	document := "preset: " + strings.ReplaceAll(string(text), "\n    ", "\n") + "\n"
	_, resolved := readSchema(t)
	require.True(t, allows(t, resolved, document))
	configFile(t, document)
	shown := shownConfig(t, "--config", "run.yaml")
	for name, want := range map[string]string{
		"preset": `"aiperf-0.13"`, "spawn-offset": `"recorded"`, "join-timing": `"immediate"`, "start": `"sampled"`, "warmup": `"duration=90s"`, "system-idle-cap": `10`,
		"max-gap": `null`, "concurrency": `8`, "duration": `1800`, "url": `["http://10.0.0.1:8000","http://10.0.0.2:8000"]`, "header": `["X-Team"]`,
	} {
		require.JSONEq(t, want, string(shown[name].Value), name)
	}
	require.Equal(t, "run.yaml:2", shown["spawn-offset"].From)
}

// configReader returns a function that reports whether the command reads a document as its configuration file without an error.
func configReader(t *testing.T) func(document string) bool {
	file := filepath.Join(t.TempDir(), "run.yaml")
	var cmd cobra.Command
	f := replayFlags{scenario: scenarioFlags{known: knownScenarios()}}
	f.register(&cmd)
	new(convertFlags).registerForInput(&cmd)
	f.set.Adopt("")
	return func(document string) bool {
		require.NoError(t, os.WriteFile(file, []byte(document), 0o600))
		f.set.Forget()
		f.errs = nil
		require.NoError(t, cmd.Flags().Set("config", file))
		f.set.Resolve(nil)
		return len(f.errs) == 0
	}
}

// more are settings of which the command finds out more than a schema says.
var more = []string{"url", "otlp", "header", "scrape", "until", "overflow-pattern", "extra-body"}

// The schema and the command agree on every key with values of every type.
func TestSchemaAgreesWithTheCommand(t *testing.T) {
	values := []string{
		"null", "~", "true", "false", "on", "off", `"off"`, "0", "1", "-1", "2", "70000", "0.25", "1.4", "1.5", "1.50", "1e3", ".5", "0x10", "1_000", "-0.5",
		"90s", "0s", "1h30m", "1.5m", "-5s", "5 s", "5x", `"90"`, `"0"`, `"1"`, `"1.5"`, `""`, "abc", "zero", "sampled", "aiperf-0.13", "ids", "primers",
		"requests=2", "requests=0", "requests=", "duration=60s", "duration=0s", "requests=2,duration=60s", "requests=2 ",
		"{requests: 2}", "{requests: 0}", "{duration: 60}", "{duration: 1m}", "{duration: 0s}", "{requests: 2, duration: 60}", "{turns: 2}", "{}",
		"8,16", "8,,16", "8,", `"8, 16"`, "0,8", "[]", "[1, 2]", `["a", "b"]`, "a/b?c",
	}
	schema, resolved := readSchema(t)
	reads := configReader(t)
	keys := []string{"speeed", "--speed", "config", "print-config", "StartRatio"}
	for name := range schema.Properties {
		if name != "set" && name != "cache" && name != "quiet" && name != "no-color" && name != "json" { // set has values of its own; the others are not the replay's
			keys = append(keys, name)
		}
	}
	require.Greater(t, len(keys), 80)
	allowed := 0
	for _, key := range keys {
		for _, value := range values {
			document := key + ": " + value + "\n"
			want := reads(document)
			if want {
				allowed++
			}
			if want || !slices.Contains(more, key) {
				assert.Equal(t, want, allows(t, resolved, document), document)
			}
		}
	}
	require.Greater(t, allowed, 400)
	for document, want := range map[string]bool{
		"":                                     true,
		"# nothing\n":                          true,
		"[a]\n":                                false,
		"speed: 2\nmax-gap: 1m\nurl: http://x": true,
	} {
		assert.Equal(t, want, reads(document), document)
		assert.Equal(t, want, allows(t, resolved, document), document)
	}
}
