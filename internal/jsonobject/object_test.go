package jsonobject

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMembers(t *testing.T) {
	list, err := Members([]byte(` {"b": [1, {"b": 2}], "a": null} `))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, slices.Sorted(maps.Keys(list)))
	require.Equal(t, `[1, {"b": 2}]`, string(list["b"]))
	for text, want := range map[string]string{
		"":                    "want a JSON object, not ",
		"[1]":                 "want a JSON object, not [1]",
		"null":                "want a JSON object, not null",
		`{"a":1`:              "want a JSON object: unexpected EOF",
		`{"a":}`:              "want a JSON object: invalid character '}'",
		`{"a":1,}`:            "want a JSON object: ",
		`{"a":1,"b":2,"a":3}`: "a: twice",
		`{} {}`:               "want one JSON object, and nothing behind it",
		`{}x`:                 "want one JSON object, and nothing behind it",
	} {
		_, err := Members([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

func TestDecode(t *testing.T) {
	var into struct {
		Count int     `json:"count"`
		Share float64 `json:"share"`
		On    bool    `json:"on"`
		Name  string  `json:"name"`
		List  []int   `json:"list"`
		Inner struct {
			ByName map[string]int `json:"by_name"`
		} `json:"inner"`
	}
	require.NoError(t, decode([]byte(`{"count":3,"share":0.5,"on":true,"name":"x"}`), &into))
	for text, want := range map[string]string{
		`{"count":1e3}`:  "count: want a whole number, not 1e3",
		`{"count":"3"}`:  "count: want a whole number, not a text",
		`{"share":true}`: "share: want a number, not true or false",
		`{"on":1}`:       "on: want true or false, not a number",
		`{"name":{}}`:    "name: want a text, not an object",
		`{"list":{}}`:    "list: want a list, not an object",
		`{"inner":[]}`:   "inner: want an object, not a list",

		`{"inner":{"by_name":1}}`: "inner.by_name: want an object, not a number",
	} {
		require.EqualError(t, decode([]byte(text), &into), want)
	}
	require.Equal(t, []string{"first", "second"}, Keys[struct {
		A int `json:"first"`
		B int `json:"second,omitempty"`
	}]())
	require.EqualError(t, Unknown("frst", []string{"first", "second"}), `unknown key "frst"; did you mean "first"?`)
	require.EqualError(t, Unknown("zzz", []string{"first", "second"}), `unknown key "zzz"; the keys are first, second`)
}
