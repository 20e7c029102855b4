package settings

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
)

// Schema prints the JSON schema of configuration files: doc/replay-config.schema.json.
func (s *Set) Schema(w io.Writer) error {
	s.Adopt(otherFlags)
	properties := map[string]any{}
	for _, row := range s.rows {
		if slices.Contains(commandLine, row.Name) {
			continue
		}
		schema := row.Kind.Schema
		if row.empty() && len(row.Kind.Words) > 0 { // the default is a value, too
			schema = map[string]any{"anyOf": []any{schema, map[string]any{"const": ""}}}
		}
		if row.Kind.Many {
			schema = map[string]any{"anyOf": []any{schema, map[string]any{"type": "array", "items": schema}}}
		}
		described := maps.Clone(schema)
		described["description"] = row.Help
		properties[row.Name] = described
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(map[string]any{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "agentx replay --config",
		"description":          "Settings of a replay by their names, which are those of flags.",
		"type":                 []any{"object", "null"},
		"additionalProperties": false,
		"properties":           properties,
	})
}
