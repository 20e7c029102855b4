package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCountText(t *testing.T) {
	for n, want := range map[int]string{0: "0 parts", 1: "1 part", 999: "999 parts", 2001: "2,001 parts", 1234567: "1,234,567 parts"} {
		assert.Equal(t, want, countText(n, "part"))
	}
}
