package content

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A count may be any value in a log.
func TestInt(t *testing.T) {
	for _, of := range [...]struct {
		raw string
		n   int64
		ok  bool
	}{
		{"12", 12, true}, {"-3", -3, true}, {"1.5e1", 15, true}, {"0", 0, true}, {"-0", 0, true},
		{"1.5", 0, false}, {"1e400", 0, false}, {"12345678901234567890", 0, false},
		{"true", 0, false}, {"false", 0, false}, {"null", 0, false}, {`"12"`, 0, false}, {`"e"`, 0, false}, {"{}", 0, false}, {"[1]", 0, false}, {"", 0, false},
	} {
		n, ok := Raw(of.raw).Int()
		assert.Equal(t, of.ok, ok, of.raw)
		if ok {
			assert.Equal(t, of.n, n, of.raw)
		}
	}
}
