package bytefmt

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFormat(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 1049: "1.0 kB", 1050: "1.1 kB", 999_949: "999.9 kB", 999_950: "1.0 MB",
		20e9: "20.0 GB", 1 << 40: "1.1 TB", math.MaxInt64: "9223372.0 TB",
	} {
		assert.Equal(t, want, Format(n), n)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 parts", 1: "1 part", 999: "999 parts", 2001: "2,001 parts", 1234567: "1,234,567 parts"} {
		assert.Equal(t, want, Count(n, "part"))
	}
}
