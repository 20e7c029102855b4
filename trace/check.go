package trace

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Limits of a trace. What is beyond them is damage, or another unit.
const (
	MaxTokens    = 1 << 24 // of one prompt, completion or declared prefix: far above any model's context
	MaxBlockSize = 1 << 20 // tokens of a block: far above any in use, far below what would exhaust memory
	MaxSeconds   = 1e15    // a recorded time: far above any clock, far below what milliseconds as float64 hold
)

// Check refuses a trace with a value that nothing behind it takes: lengths, block size, ids, times, models. Negative ids, times
// and completions are valid: doc/spec/reconstruction.md 1.4. The error is always an *Error.
func (t *Trace) Check() error {
	if err := t.check(); err != nil {
		err.Trace = t.ID
		return err
	}
	return nil
}

func (t *Trace) check() *Error {
	if err := CheckBlockSize(t.BlockSize); err != nil {
		return err.at("block_size")
	}
	if t.Scope > ScopeGlobal {
		return &Error{Kind: BadScope, Where: "hash_id_scope", Problem: fmt.Sprintf("scope %d: want absent, local or global", t.Scope)}
	}
	if err := checkPrefix("", t.ToolTokens, t.SystemTokens); err != nil {
		return err
	}
	for k := range t.Entries {
		e, where := &t.Entries[k], Place{k, None}
		if e.Subagent == nil {
			if err := e.Request.check(where, len(t.Models)); err != nil {
				return err
			}
			continue
		}
		if err := e.Subagent.check(where, len(t.Models)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Subagent) check(where Place, models int) *Error {
	if err := CheckTime(s.T, nil, "seconds"); err != nil {
		return err.at(where.String() + ".t")
	}
	if err := checkPrefix(where.String()+".", s.ToolTokens, s.SystemTokens); err != nil {
		return err
	}
	for k := range s.Requests {
		if err := s.Requests[k].check(Place{where.Outer, k}, models); err != nil {
			return err
		}
	}
	return nil
}

func (r *Request) check(where Place, models int) *Error {
	if err := CheckLengths("in", "out", r.In, r.Out); err != nil {
		return err.at(where.String())
	}
	for _, time := range [...]struct {
		name string
		Seconds
	}{{"t", Seconds{r.T, true}}, {"api_time", r.APITime}, {"think_time", r.ThinkTime}} {
		if err := CheckTime(time.V, nil, "seconds"); err != nil && time.OK {
			return err.at(where.String() + "." + time.name)
		}
	}
	if !r.IDs.whole() {
		return &Error{Kind: Conflict, Where: where.String() + ".hash_ids", Problem: fmt.Sprintf("runs %v of a list of %d ids: want runs that are as long as possible, of that many ids together", r.IDs.Runs, r.IDs.Len)}
	}
	if r.Model < 0 || r.Model >= models {
		return &Error{Kind: MissingField, Where: where.String() + ".model", Problem: fmt.Sprintf("model %d of %d", r.Model, models)}
	}
	return nil
}

// whole reports whether the runs of a list are what its length says, and as long as possible.
func (l IDs) whole() bool {
	n := 0
	for k, r := range l.Runs {
		if r.N <= 0 || r.N > l.Len-n || k > 0 && r.First == l.Runs[k-1].First+int64(l.Runs[k-1].N) {
			return false
		}
		n += r.N
	}
	return n == l.Len
}

func checkPrefix(where string, tool, system int64) *Error {
	for k, n := range []int64{tool, system} {
		if n > MaxTokens || n < -MaxTokens { // sums must not overflow
			return &Error{Kind: TooLarge, Where: where + []string{"tool_tokens", "system_tokens"}[k], Problem: fmt.Sprintf("%d tokens: larger than %d", n, MaxTokens)}
		}
	}
	return nil
}

// CheckBlockSize refuses a block size.
func CheckBlockSize(tokens int64) *Error {
	if tokens > 0 && tokens <= MaxBlockSize {
		return nil
	}
	return &Error{Kind: BadBlockSize, Problem: fmt.Sprintf("block size %d: want 1 to %d tokens", tokens, MaxBlockSize)}
}

// CheckLengths refuses impossible lengths of a prompt and a completion, in tokens. The names are those of their fields.
func CheckLengths(inName, outName string, in, out int64) *Error {
	switch {
	case in < 0:
		return &Error{Kind: NegativeIn, Problem: fmt.Sprintf("%s = %d: a prompt cannot have a negative length", inName, in)}
	case in > MaxTokens || out > MaxTokens || out < -MaxTokens:
		return &Error{Kind: TooLarge, Problem: fmt.Sprintf("%s = %d, %s = %d: larger than %d tokens", inName, in, outName, out, MaxTokens)}
	}
	return nil
}

// CheckTime refuses a time beyond MaxSeconds, and NaN. text is the time as the file writes it, nil for the number itself.
func CheckTime(v float64, text []byte, unit string) *Error {
	if math.Abs(v) <= MaxSeconds {
		return nil
	}
	shown := Clip(text)
	if text == nil {
		shown = strconv.FormatFloat(v, 'g', -1, 64)
	}
	err := &Error{Kind: TooLarge, Problem: fmt.Sprintf("%s %s: beyond %g", shown, unit, MaxSeconds)}
	if math.IsInf(v, 0) || math.IsNaN(v) {
		err.Kind, err.Problem = NotFinite, shown+" is not a finite number"
	} else if date := SinceEpoch(v); date != "" {
		err.Problem = fmt.Sprintf("%s looks like %s since 1970: want %s", shown, date, unit)
	}
	return err
}

// SinceEpoch names the unit in which a number is a date between 2001 and 2100, counted from 1970: milliseconds or smaller.
// It returns "" for any other number.
func SinceEpoch(v float64) string {
	const from, to = 1e9, 4.1e9
	units := []string{"milliseconds", "microseconds", "nanoseconds"}
	per := []float64{1e3, 1e6, 1e9}
	k := slices.IndexFunc(per, func(n float64) bool { return v/n >= from && v/n < to })
	if k < 0 {
		return ""
	}
	return units[k]
}

// at adds the place of the field.
func (e *Error) at(where string) *Error {
	e.Where = where
	return e
}
