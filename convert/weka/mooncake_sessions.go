package weka

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/agentx/agentx/trace"
)

// settleSessions decides whether the rows of each session hold whole prompts, or what is new in them: doc/spec/reconstruction.md 1.9.
func (m *Mooncake) settleSessions(b rowBlock) *trace.Error {
	for _, t := range m.order {
		t.Live = m.rules.SessionRows == "live"
		at := breaksOff(t)
		if at == 0 || m.spoiled[t.ID] {
			continue
		}
		switch m.rules.SessionRows {
		case "ask":
			return unclearRows(t, at)
		case "new":
			if err := prependHistory(t, b); err != nil {
				m.invalid = append(m.invalid, err)
				m.spoiled[t.ID] = true
			}
		}
	}
	return nil
}

// breaksOff returns the index of the first request that shares no first block with the one before, where no request of the session shares
// one: then the ids do not say what rows hold. It returns 0 where they do.
func breaksOff(t *trace.Trace) (at int) {
	for k := 1; k < len(t.Entries); k++ {
		before, ids := t.Entries[k-1].IDs, t.Entries[k].IDs
		switch {
		case before.Len == 0:
		case trace.CommonPrefix(before, ids) > 0:
			return 0
		case at == 0:
			at = k
		}
	}
	return at
}

// shownRows bounds the rows of a session whose lengths an error shows.
const shownRows = 4

func unclearRows(t *trace.Trace, at int) *trace.Error {
	var whole, longer []string
	total := int64(0)
	for k := range t.Entries[:min(len(t.Entries), shownRows)] {
		if k > 0 {
			total += max(0, t.Entries[k-1].Out)
		}
		total += t.Entries[k].In
		whole, longer = append(whole, fmt.Sprint(t.Entries[k].In)), append(longer, fmt.Sprint(total))
	}
	return &trace.Error{
		Kind: trace.Unclear, Row: t.Rows[at], Trace: t.ID,
		Problem: fmt.Sprintf("rows of this session share no first block with the row before: either each has its whole prompt (%s tokens), or what is new in it, behind all before and the answers (%s tokens)",
			strings.Join(whole, ", "), strings.Join(longer, ", ")),
		Hint: "--set session_rows=whole where rows have whole prompts; --set session_rows=new where they have what is new",
	}
}

// prependHistory gives the rows of a session, which hold what is new, their whole prompts: all of the row before, as many tokens as its
// answer had, and what is new. The whole blocks of the first row keep their ids. Behind them the session has blocks of its own: they begin
// where no recorded block does.
func prependHistory(t *trace.Trace, b rowBlock) *trace.Error {
	first := &t.Entries[0].Request
	kept := first.IDs.Head(int(first.In / b.size))
	own := ownIDs(t.ID)
	total := int64(0)
	for k := range t.Entries {
		r := &t.Entries[k].Request
		if total += r.In; k > 0 {
			total += max(0, t.Entries[k-1].Out)
			t.Oddities.Add(trace.OddityAnswers, "requests[%d]: %d tokens stand before its %d", k, total-r.In, r.In)
		}
		if total > trace.MaxTokens {
			return &trace.Error{Kind: trace.TooLarge, Row: t.Rows[k], Trace: t.ID, Problem: fmt.Sprintf("%d tokens with all rows and answers before: larger than %d", total, int64(trace.MaxTokens))}
		}
		r.In, r.IDs = total, trace.IDs{Runs: append([]trace.Run(nil), kept.Runs...), Len: kept.Len}
		if n := int(b.need(total)) - kept.Len; n > 0 {
			r.IDs.Runs, r.IDs.Len = append(r.IDs.Runs, trace.Run{First: own + int64(kept.Len), N: n}), kept.Len+n
		}
	}
	return nil
}

// ownIDs returns the first of many ids that no other trace has, but by a chance of one in 2^60.
func ownIDs(trace string) int64 {
	sum := sha256.Sum256([]byte("session_rows=new\x00" + trace))
	return int64(binary.BigEndian.Uint64(sum[:]) >> 2)
}
