package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"
)

// configSchema returns the JSON schema of configuration files: doc/replay-config.schema.json.
func configSchema(flags *pflag.FlagSet) map[string]any {
	properties := map[string]any{}
	for k := range settings {
		s := &settings[k]
		about := s.about
		if s.alias != "" {
			about += fmt.Sprintf(" (the same as %s)", s.alias)
		}
		properties[s.name] = described(s.kind.schema, about)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		switch a, alias := f.Value.(aliasValue); {
		case slices.Contains(notInFiles, f.Name):
		case alias:
			properties[f.Name] = described(a.setting.kind.schema, "the same as "+a.setting.name)
		default:
			properties[f.Name] = described(flagSchema(f), f.Usage)
		}
	})
	return map[string]any{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "agentx replay --config",
		"description":          "Switches and options of a replay by their names, and flags by theirs. A name is set once: a flag that is the same as an option is the same name.",
		"type":                 []any{"object", "null"},
		"additionalProperties": false,
		"properties":           properties,
	}
}

// flagSchema returns the schema of the values of a flag.
func flagSchema(f *pflag.Flag) map[string]any {
	kind := kindOfFlag(f)
	schema := kind.schema
	if f.DefValue == "" && len(kind.words) > 0 { // the default is a value, too
		schema = map[string]any{"anyOf": []any{schema, map[string]any{"const": ""}}}
	}
	if _, list := f.Value.(pflag.SliceValue); list {
		return map[string]any{"anyOf": []any{schema, map[string]any{"type": "array", "items": schema}}}
	}
	return schema
}

// described returns a schema with a description.
func described(schema map[string]any, about string) map[string]any {
	d := map[string]any{"description": about}
	for name, v := range schema {
		d[name] = v
	}
	return d
}

func printConfigSchema(w io.Writer, flags *pflag.FlagSet) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(configSchema(flags))
}
