package mock

import (
	"fmt"
	"io"
	"math"
	"time"
)

// Config says how a Server behaves. The zero value is a server that answers at once, caches DefaultCacheBlocks blocks and
// never fails.
type Config struct {
	// TTFT is the time from the end of a request's body to the first token of its answer. The headers of a stream go out
	// with the first token.
	TTFT time.Duration
	// ITL is the time from one token to the next. Tokens that are due at the same instant share a write: with 0 a whole
	// answer does. Otherwise each token costs the server a timer, a write and a flush.
	ITL time.Duration
	// TokensPerSecond is the speed of one answer after its first token. It counts only where ITL is 0; 0 sets no limit.
	TokensPerSecond float64

	// PrefillSlots, PrefillRate, DecodeSlots and ITLGrowth, if one of them is set, limit what the server does at a time; 0 sets no
	// limit. A prompt holds one of PrefillSlots for TTFT and for its tokens that are not cached, PrefillRate of them a second;
	// then its first token is there. The other tokens come from one batch of at most DecodeSlots answers: a step gives each of
	// n answers a token and takes ITL + (n-1) ITLGrowth. Requests wait in the order in which they arrived, and one whose
	// client has gone holds nothing.
	PrefillSlots int
	PrefillRate  float64
	DecodeSlots  int
	ITLGrowth    time.Duration

	// CacheBlocks bounds the prefix cache, in blocks of BlockTokens tokens and about 40 bytes of memory each. 0 is
	// DefaultCacheBlocks; below 0 there is no cache.
	CacheBlocks int

	// CountTokens returns the number of tokens of one text: a message's content or a prompt. With it usage is exact instead
	// of estimated, and Stats shows the difference. It costs a tokenization of every text prompt, must be safe for
	// concurrent use, and must not keep its argument. nil estimates.
	CountTokens func(text []byte) int

	// Faults are injected at their rates; see FaultKinds. A request gets at most one fault, so if the rates add
	// up to more than 1, the last faults are injected less often, or never.
	Faults []Fault
	// Seed decides, with the number of a request, which fault it gets.
	Seed int64

	// Log, if it is not nil, gets a line of JSON for each request that was answered to its end: an Answer. Requests write to it in turn.
	Log io.Writer

	maxBody int64 // bytes of a body; for tests, 0 is maxBody
	clock   clock // for tests; nil is the machine's
}

// Validate reports the first field with a value that is not allowed: its name, the value, and what is allowed.
func (c Config) Validate() error {
	switch {
	case c.TTFT < 0:
		return fmt.Errorf("ttft %s: want 0 or more", c.TTFT)
	case c.ITL < 0:
		return fmt.Errorf("itl %s: want 0 or more", c.ITL)
	case !(c.TokensPerSecond >= 0) || math.IsInf(c.TokensPerSecond, 0):
		return fmt.Errorf("tokens per second %g: want 0 (no limit) or more", c.TokensPerSecond)
	case c.PrefillSlots < 0:
		return fmt.Errorf("prefill slots %d: want 0 (no limit) or more", c.PrefillSlots)
	case !(c.PrefillRate >= 0) || math.IsInf(c.PrefillRate, 0):
		return fmt.Errorf("prefill rate %g: want 0 (no limit) or more tokens per second", c.PrefillRate)
	case c.DecodeSlots < 0:
		return fmt.Errorf("decode slots %d: want 0 (no limit) or more", c.DecodeSlots)
	case c.ITLGrowth < 0:
		return fmt.Errorf("itl growth %s: want 0 or more", c.ITLGrowth)
	}
	for _, f := range c.Faults {
		if err := f.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// tokenInterval returns the time between two tokens of an answer.
func (c Config) tokenInterval() time.Duration {
	if c.ITL == 0 && c.TokensPerSecond > 0 {
		return time.Duration(float64(time.Second) / c.TokensPerSecond)
	}
	return c.ITL
}

// limited reports whether requests wait for one another.
func (c Config) limited() bool {
	return c.PrefillSlots > 0 || c.PrefillRate > 0 || c.DecodeSlots > 0 || c.ITLGrowth > 0
}

// prefillTime returns how long a prompt holds a slot, by its tokens that are not cached.
func (c Config) prefillTime(tokens int) time.Duration {
	if c.PrefillRate == 0 {
		return c.TTFT
	}
	return c.TTFT + time.Duration(float64(tokens)/c.PrefillRate*float64(time.Second))
}
