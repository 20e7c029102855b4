package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "123": 123, "1k": 1000, "1K": 1000, "2M": 2e6, "20G": 20e9, "1.5T": 1.5e12, "1Ki": 1024, "1ki": 1024, "3Mi": 3 << 20,
		"1.5Gi": 3 << 29, "2Ti": 2 << 40, "10B": 10, "10kB": 10_000, "10GiB": 10 << 30, "9000000T": 9e18,
	} {
		got := int64(-1)
		assert.NoError(t, size(&got).Set(text), text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "k", "-1", "+1", "1e3", "0x10", "inf", "NaN", "1.2.3", "1X", "1kk", "1iK", "1m", "1 k", "1Bk", "1_000", "10000000T", "9223372036854775808"} {
		got := int64(-1)
		assert.ErrorContains(t, size(&got).Set(text), "want a size such as", text)
		assert.EqualValues(t, -1, got, text)
	}
	none, some := int64(-1), int64(5)
	assert.Equal(t, "", size(&none).String(), "no limit is no default that help shows")
	assert.Equal(t, "5", size(&some).String())
}

func TestAges(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "90": 90 * time.Second, "1.5": 1500 * time.Millisecond, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute,
		"7d": 7 * 24 * time.Hour, "0d": 0, "0.5d": 12 * time.Hour, "100000d": 100_000 * 24 * time.Hour,
	} {
		var got time.Duration
		assert.NoError(t, age(&got).Set(text), text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "d", "-1", "-7d", "1e9d", "100001d", "7 d", "7D", "infd", "7w", "x"} {
		got := time.Second
		assert.ErrorContains(t, age(&got).Set(text), "want an age such as", text)
	}
}
