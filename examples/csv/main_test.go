package main

import (
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	list, err := read(strings.NewReader("a,0,130,20,1 2\nb,0.5,64,1,\na,1.5,200,8,1 2 3\n"))
	if err != nil || len(list) != 2 || len(list[0].Entries) != 2 || list[0].Entries[1].IDs.Len != 3 {
		t.Fatal(list, err)
	}
	for text, want := range map[string]string{
		"a,0,99999999999,1,1\n":          `trace "a": requests[0]: in = 99999999999, out = 1: larger than 16777216 tokens`,
		"a,1e300,1,1,1\n":                `trace "a": requests[0].t: 1e+300 seconds: beyond 1e+15`,
		"a,0,130,20,1\na,1,130,20,one\n": `line 2: strconv.ParseInt: parsing "one": invalid syntax`,
	} {
		if _, err := read(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Error(err, "want", want)
		}
	}
}
