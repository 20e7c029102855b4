package suggest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestClosest(t *testing.T) {
	for _, c := range []struct {
		word, want string
		names      []string
	}{
		{"see", "seed", []string{"set-up", "seed", "speed"}},
		{"concurency", "concurrency", []string{"corpus", "concurrency"}},
		{"0504", "trace_0504", []string{"trace_0001", "trace_0505", "trace_0504"}},
		{"DEMO-01-APPEN", "demo-01-append", []string{"demo-02-append", "demo-01-append"}},
		{"trace_0504::sa:1", "trace_0504", []string{"trace_0400", "trace_0504"}},
		{"frobnicate", "", []string{"force", "profile"}},
		{"x", "", []string{"max", "y"}}, // a letter stands in every second name
		{"", "", []string{"a", "ab"}},
		{"a", "", nil},
	} {
		assert.Equal(t, c.want, Closest(c.word, c.names), c.word)
	}
}

func TestNearest(t *testing.T) {
	assert.Equal(t, []string{"bb", "Ab", "xx", "yy"}, Nearest("bB", []string{"xx", "Ab", "yy", "bb"}))
	assert.Empty(t, Nearest("a", nil))
}

func TestDistance(t *testing.T) {
	assert.Equal(t, 3, distance("kitten", "sitting"))
	assert.Equal(t, 4, distance("", "abcd"))
	assert.Equal(t, 4, distance("abcd", ""))
	assert.Zero(t, distance("abcd", "abcd"))
}
