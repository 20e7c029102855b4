package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/agentx/agentx/replay"
)

const warmupWanted = "none, primers, requests=R or duration=D"

// warmupKind is a value of Warmup. In a file it may also be an object with the bound of the pressure stage.
var warmupKind = kind{
	want:  warmupWanted,
	flag:  "string",
	words: []string{"none", "primers", "requests=", "duration="},
	tags:  []string{yamlText},
	schema: map[string]any{"oneOf": []any{
		map[string]any{"enum": []any{"none", "primers"}},
		map[string]any{"type": "string", "pattern": "^(requests=[0-9]*[1-9][0-9]*|duration=[0-9.a-zµ]*[1-9][0-9.a-zµ]*)$"},
		map[string]any{
			"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
			"properties": map[string]any{"requests": map[string]any{"type": "integer", "minimum": 1}, "duration": longer.schema},
		},
	}},
	parse: func(text string) (any, bool) {
		_, err := parseWarmup(text)
		return text, err == nil
	},
	why: func(text string) error {
		_, err := parseWarmup(text)
		return err
	},
}

// parseWarmup reads none, primers, or a bound of the pressure stage: requests=R or duration=D.
func parseWarmup(text string) (w replay.Warmup, err error) {
	if text == "none" {
		return w, nil
	}
	w.Primers = true
	if text == "primers" {
		return w, nil
	}
	for k, bound := range strings.Split(text, ",") {
		if k > 0 {
			return w, errors.New("two bounds of the pressure stage: want requests=R or duration=D")
		}
		name, value, _ := strings.Cut(bound, "=")
		switch name {
		case "requests":
			if w.Requests, err = strconv.Atoi(value); err != nil || w.Requests < 1 {
				return w, errors.New("want requests=R, a number above 0")
			}
		case "duration":
			d, err := longer.read(value)
			if err != nil {
				return w, errors.New("want duration=D, a duration above 0")
			}
			w.Duration = d.(time.Duration)
		default:
			return w, wrongWord(text, warmupWanted, []string{"none", "primers", "requests=R", "duration=D"})
		}
	}
	return w, nil
}
