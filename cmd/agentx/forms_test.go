package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/text/aiperf"
)

// A file of each of AIPerf's forms, of all samples, is sent as AIPerf 0.13.0 sends it: the bodies that AIPerf sent stand beside the samples. With
// an AIPerf at hand (make test-bodies) it runs the same command line, and AGENTX_UPDATE=true writes what it sends. Members that the command line
// decides are left out of bodies that AIPerf sends as they are in the file.
func TestFormsAreSentAsByAIPerf(t *testing.T) {
	t.Setenv("AGENTX_CACHE", warmRoot(t))
	t.Setenv("AGENTX_NO_CALIBRATE", "true")
	t.Setenv("AGENTX_NO_PREFLIGHT", "true")
	for k := range aiperf.Forms {
		form := aiperf.Forms[k].Name
		t.Run(form, func(t *testing.T) {
			name := filepath.Join("..", "..", "convert", "testdata", "aiperf", form+".txtar")
			a, err := txtar.ParseFile(name)
			require.NoError(t, err)
			files, sessions := samplesIn(t, a, form)
			wanted := filepath.Join("testdata", "aiperf-bodies", form+".jsonl")
			if python := os.Getenv("BODIES_PYTHON"); python != "" {
				theirs := formBodies(t, form, files, sessions, func(flags []string) {
					ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
					defer stop()
					cmd := exec.CommandContext(ctx, python, append([]string{"-m", "aiperf"}, flags...)...)
					cmd.Env = append(os.Environ(), "TIKTOKEN_CACHE_DIR="+ranksForTiktoken(t), "HOME="+t.TempDir())
					if out, err := cmd.CombinedOutput(); err != nil { // it does not read the answers to some bodies that are sent as they are
						t.Logf("AIPerf: %v\n%s", err, out)
					}
				})
				if os.Getenv("AGENTX_UPDATE") != "" {
					require.NoError(t, os.MkdirAll(filepath.Dir(wanted), 0o755))
					require.NoError(t, os.WriteFile(wanted, []byte(strings.Join(theirs, "\n")+"\n"), 0o644))
				}
				assert.Equal(t, linesIn(t, wanted), theirs)
			}
			ours := formBodies(t, form, files, sessions, func(flags []string) {
				var problems strings.Builder
				require.Zero(t, run(append([]string{"aiperf"}, flags...), nil, io.Discard, &problems), problems.String())
			})
			assert.Equal(t, linesIn(t, wanted), ours)
		})
	}
}

func linesIn(t *testing.T, name string) []string {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// samplesIn writes the samples of a form into one file, and returns how many sessions that others do not start it has. Texts of mooncake_trace, of
// which a session goes behind the answers of the server, are a file apart: agentx wants one of the two in an input.
func samplesIn(t *testing.T, a *txtar.Archive, form string) (files []string, sessions []int) {
	for _, texts := range []bool{false, true} {
		var rows []string
		n := 0
		for k := 0; k < len(a.Files); k += 2 {
			if row := strings.TrimSpace(string(a.Files[k].Data)); strings.Contains(row, "text_input") == texts {
				var answer struct{ Sessions int }
				require.NoError(t, json.Unmarshal(a.Files[k+1].Data, &answer))
				n += answer.Sessions
				rows = append(rows, row)
			}
		}
		if n == 0 {
			continue
		}
		text, file := strings.Join(rows, "\n"), filepath.Join(t.TempDir(), "samples.jsonl")
		if form == "inputs_json" {
			file = strings.TrimSuffix(file, "l")
			text = strings.ReplaceAll(text, "]}\n{\"data\": [", ", ")
		}
		require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
		files, sessions = append(files, file), append(sessions, n)
	}
	return files, sessions
}

// formFlags is a command line that plays each session once, and of a pool more rows than it has.
func formFlags(t *testing.T, form, file, url string, sessions int) []string {
	flags := []string{"profile", "--model", "m", "--tokenizer", "builtin", "--url", url, "--endpoint-type", "chat", "--streaming", "--use-server-token-count",
		"--input-file", file, "--custom-dataset-type", form, "--concurrency", "1", "--random-seed", "42", "--no-server-metrics", "--no-gpu-telemetry", "--ui", "none",
		"--no-fixed-schedule", "--output-artifact-dir", t.TempDir()}
	switch form {
	case "random_pool":
		return append(flags, "--request-count", "80", "--num-dataset-entries", "80")
	case "dag_jsonl":
		return append(flags, "--conversation-num", strconv.Itoa(sessions), "--dataset-sampling-strategy", "shuffle")
	}
	return append(flags, "--conversation-num", strconv.Itoa(sessions))
}

// formBodies returns the bodies of each session that a client sends to a server, a line each, in one order, each once.
func formBodies(t *testing.T, form string, files []string, sessions []int, play func(flags []string)) (lines []string) {
	s := newBodyServer(t)
	for k, file := range files {
		play(formFlags(t, form, file, s.url, sessions[k]))
	}
	for _, list := range s.sessions {
		var bodies []map[string]any
		for _, digest := range list {
			var body map[string]any
			require.NoError(t, json.Unmarshal([]byte(s.texts[digest]), &body))
			if form == "raw_payload" || form == "inputs_json" || form == "mooncake_trace" {
				for _, name := range []string{"model", "stream", "stream_options"} {
					delete(body, name)
				}
			}
			if n, ok := body["max_tokens"]; ok { // the name is that of the command line
				delete(body, "max_tokens")
				body["max_completion_tokens"] = n
			}
			bodies = append(bodies, body)
		}
		line, err := json.Marshal(bodies)
		require.NoError(t, err)
		lines = append(lines, string(line))
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
