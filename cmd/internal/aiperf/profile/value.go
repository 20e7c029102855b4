package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// oneSpelling returns a word of AIPerf's in one spelling: it takes round-robin and ROUND_ROBIN for round_robin.
func oneSpelling(text string) string { return strings.ReplaceAll(strings.ToLower(text), "-", "_") }

// parts returns the parts of values with commas between.
func parts(values []string) (list []string) {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if part = strings.TrimSpace(part); part != "" {
				list = append(list, part)
			}
		}
	}
	return list
}

// number returns a number that is not negative, as AIPerf takes one.
func number(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0) {
		return 0, errors.New("want a number of 0 or more")
	}
	return x, nil
}

// secondsOf returns a number of seconds as agentx takes one.
func secondsOf(text string) (string, error) {
	x, err := number(text)
	if err != nil || math.IsInf(x, 1) {
		return "", errors.New("want a number of seconds, 0 or more")
	}
	return strconv.FormatFloat(x, 'f', -1, 64) + "s", nil
}

// pair is one of the pairs of --extra-inputs and --header.
type pair struct {
	name  string
	value json.RawMessage
}

// pairsOf reads key:value with commas between, or a JSON object, from each value. Errors have no part of a value.
func pairsOf(values []string) (pairs []pair, err error) {
	for _, text := range values {
		if strings.HasPrefix(text, "{") {
			members, err := membersOf(text)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, members...)
			continue
		}
		for item := range strings.SplitSeq(text, ",") {
			name, value, ok := strings.Cut(item, ":")
			if !ok {
				return nil, errors.New("want KEY:VALUE, with commas between, or a JSON object")
			}
			pairs = append(pairs, pair{strings.TrimSpace(name), scalar(strings.TrimSpace(value))})
		}
	}
	return pairs, nil
}

// membersOf returns the members of a JSON object, in their order.
func membersOf(text string) (members []pair, err error) {
	wrong := errors.New("want a JSON object")
	d := json.NewDecoder(strings.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil, wrong
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, wrong
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, wrong
		}
		members = append(members, pair{fmt.Sprint(name), value})
	}
	if _, err := d.Token(); err != nil || d.More() {
		return nil, wrong
	}
	return members, nil
}

// scalar returns what AIPerf takes a value of KEY:VALUE for: true, false, null, a number, or a text.
func scalar(text string) json.RawMessage {
	switch strings.ToLower(text) {
	case "true", "false":
		return json.RawMessage(strings.ToLower(text))
	case "none", "null":
		return json.RawMessage("null")
	}
	if strings.Trim(text, "-0123456789.") != "" {
		return quoted(text)
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil && strings.Count(text, ".") == 1 {
		return json.RawMessage(strconv.FormatFloat(x, 'f', -1, 64))
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return quoted(text) // such as 007
}

// joinPairs returns the pairs as a JSON object. A later pair replaces one of the same name.
func joinPairs(pairs []pair) string {
	var b bytes.Buffer
	last := map[string]json.RawMessage{}
	for _, p := range pairs {
		last[p.name] = p.value
	}
	for _, p := range pairs {
		if value, ok := last[p.name]; ok {
			fmt.Fprintf(&b, ",%s:%s", quoted(p.name), value)
			delete(last, p.name)
		}
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

// quoted returns a value as JSON.
func quoted(v any) json.RawMessage {
	text, _ := json.Marshal(v) // a text always marshals, and what YAML has
	return text
}
