package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chunkWith is a content message with a count of completion tokens.
func chunkWith(completion string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}],\"usage\":{\"completion_tokens\":%s}}\n\n", completion)
}

// The tokens of a content message are the growth of its count of completion tokens. A count that falls, lags or is missing is none.
func TestContentsTokens(t *testing.T) {
	stream := []string{chunkWith("4"), chunkWith("4"), event1("x"), chunkWith("9"), chunkWith("3"), chunkWith("1.5"), chunkWith("12"), doneEvent}
	for _, perChunk := range []bool{true, false} {
		res := newResult(5)
		var d decoder
		d.reset(responseState{res: &res, events: true, perChunk: perChunk})
		for i, message := range stream {
			require.NoError(t, d.feed([]byte(message), time.Duration(10*(i+1))))
		}
		category, _ := d.finish()
		require.Empty(t, category)
		var at []time.Duration
		var tokens []int64
		for instant, n := range res.Contents.All() {
			at, tokens = append(at, instant), append(tokens, n)
		}
		require.Equal(t, []time.Duration{5, 15, 25, 35, 45, 55, 65}, at)
		want := []int64{Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown}
		if perChunk {
			want = []int64{4, 0, Unknown, 5, Unknown, Unknown, 3}
		}
		require.Equal(t, want, tokens)
	}
}

// A result keeps its contents when the connection that made them decodes another answer.
func TestContentsAreCopied(t *testing.T) {
	decode := func(d *decoder, arrived time.Duration) Result {
		res := newResult(0)
		d.reset(responseState{res: &res, events: true})
		require.NoError(t, d.feed([]byte(event1("a")+event1("b")+doneEvent), arrived))
		d.finish()
		return res
	}
	var d decoder
	first := decode(&d, 1000)
	packed := string(first.Contents.Packed())
	require.Equal(t, len(packed), cap(first.Contents.Packed()))
	decode(&d, 3)
	require.Equal(t, packed, string(first.Contents.Packed()))
}
