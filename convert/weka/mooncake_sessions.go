package weka

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
)

// settleSessions decides whether the rows of each session hold whole prompts, or what is new in them: doc/spec/reconstruction.md 1.9.
func (m *Mooncake) settleSessions(b rowBlock) *Error {
	for _, t := range m.order {
		t.live = m.rules.SessionRows == "live"
		at := t.breaksOff()
		if at == 0 || t.spoiled {
			continue
		}
		switch m.rules.SessionRows {
		case "ask":
			return t.unclearRows(at)
		case "new":
			if err := t.prependHistory(b); err != nil {
				m.invalid = append(m.invalid, err)
				t.spoiled = true
			}
		}
	}
	return nil
}

// breaksOff returns the index of the first request that shares no first block with the one before, where no request of the session shares
// one: then the ids do not say what rows hold. It returns 0 where they do.
func (t *Trace) breaksOff() (at int) {
	for k := 1; k < len(t.Entries); k++ {
		before, ids := t.Entries[k-1].IDs, t.Entries[k].IDs
		switch {
		case before.Len == 0:
		case commonPrefix(before, ids) > 0:
			return 0
		case at == 0:
			at = k
		}
	}
	return at
}

// shownRows bounds the rows of a session whose lengths an error shows.
const shownRows = 4

func (t *Trace) unclearRows(at int) *Error {
	var whole, longer []string
	total := int64(0)
	for k := range t.Entries[:min(len(t.Entries), shownRows)] {
		if k > 0 {
			total += max(0, t.Entries[k-1].Out)
		}
		total += t.Entries[k].In
		whole, longer = append(whole, fmt.Sprint(t.Entries[k].In)), append(longer, fmt.Sprint(total))
	}
	return &Error{
		Kind: Unclear, Row: t.rows[at], Trace: t.ID,
		Problem: fmt.Sprintf("rows of this session share no first block with the row before: either each has its whole prompt (%s tokens), or what is new in it, behind all before and the answers (%s tokens)",
			strings.Join(whole, ", "), strings.Join(longer, ", ")),
		Hint: "--set session_rows=whole where rows have whole prompts; --set session_rows=new where they have what is new",
	}
}

// prependHistory gives the rows of a session, which hold what is new, their whole prompts: all of the row before, as many tokens as its
// answer had, and what is new. The whole blocks of the first row keep their ids. Behind them the session has blocks of its own: they begin
// where no recorded block does.
func (t *Trace) prependHistory(b rowBlock) *Error {
	first := &t.Entries[0].Request
	kept := first.IDs.head(int(first.In / b.size))
	own := ownIDs(t.ID)
	total := int64(0)
	for k := range t.Entries {
		r := &t.Entries[k].Request
		if total += r.In; k > 0 {
			total += max(0, t.Entries[k-1].Out)
			t.rowOddities.add(OddityAnswers, "requests[%d]: %d tokens stand before its %d", k, total-r.In, r.In)
		}
		if total > MaxTokens {
			return &Error{Kind: TooLarge, Row: t.rows[k], Trace: t.ID, Problem: fmt.Sprintf("%d tokens with all rows and answers before: larger than %d", total, int64(MaxTokens))}
		}
		r.In, r.IDs = total, IDs{append([]Run(nil), kept.Runs...), kept.Len}
		if n := int(b.need(total)) - kept.Len; n > 0 {
			r.IDs.Runs, r.IDs.Len = append(r.IDs.Runs, Run{own + int64(kept.Len), n}), kept.Len+n
		}
	}
	return nil
}

// ownIDs returns the first of many ids that no other trace has, but by a chance of one in 2^60.
func ownIDs(trace string) int64 {
	sum := sha256.Sum256([]byte("session_rows=new\x00" + trace))
	return int64(binary.BigEndian.Uint64(sum[:]) >> 2)
}

// head returns the first n ids of a list.
func (l IDs) head(n int) (h IDs) {
	for _, r := range l.Runs {
		if r.N = min(r.N, n-h.Len); r.N == 0 {
			break
		}
		h.Runs, h.Len = append(h.Runs, r), h.Len+r.N
	}
	return h
}
