package weka

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agentx/agentx/trace"
)

// Block sizes of Mooncake rows: the usual one, and those that lengths may tell.
const usualBlock = 512

var guessedBlocks = []int64{16, 32, 64, 128, 256, 512, 1024}

// rowBlock is how a prompt of Mooncake rows divides into blocks.
type rowBlock struct {
	size int64
	down bool // the tokens after the last whole block have no id
}

func (b rowBlock) String() string {
	if b.down {
		return fmt.Sprintf("%d tokens, whole blocks alone", b.size)
	}
	return fmt.Sprintf("%d tokens, the partial last block included", b.size)
}

// need returns how many ids a prompt has.
func (b rowBlock) need(in int64) int64 {
	if b.down {
		return in / b.size
	}
	return (in + b.size - 1) / b.size
}

// settle checks a row with the block size of its file, and gives it the length of all blocks of its list where it has none.
func (b rowBlock) settle(r *trace.Request) *trace.Error {
	if r.In == lengthByIDs {
		r.In = int64(r.IDs.Len) * b.size
	}
	switch need := b.need(r.In); {
	case r.In > trace.MaxTokens:
		return &trace.Error{Kind: trace.TooLarge, Problem: fmt.Sprintf("%d hash_ids of %d tokens: larger than %d tokens", r.IDs.Len, b.size, int64(trace.MaxTokens))}
	case need > int64(r.IDs.Len):
		return &trace.Error{Kind: trace.Conflict, Problem: fmt.Sprintf("input_length %d needs %d blocks of %d tokens, hash_ids has %d", r.In, need, b.size, r.IDs.Len)}
	}
	return nil
}

// knownBlock returns the block size that the rows or the rules say, else the usual one.
func (m *Mooncake) knownBlock() rowBlock {
	return rowBlock{size: cmp.Or(m.declared, int64(m.rules.BlockSize), usualBlock)}
}

// settleBlocks decides the block size of the file: doc/spec/reconstruction.md 1.9.
func (m *Mooncake) settleBlocks() (rowBlock, *trace.Error) {
	b, asked := m.knownBlock(), int64(m.rules.BlockSize)
	whole := rowBlock{b.size, true}
	switch {
	case m.declared != 0 && asked != 0 && asked != m.declared:
		return b, &trace.Error{Kind: trace.Contradiction, Problem: fmt.Sprintf("rows have block_size %d, and the rule block_size says %d", m.declared, asked),
			Hint: "without that rule: rows that say their block size need none"}
	case m.frozen || m.misfit(b) == nil:
		return b, nil
	case m.declared != 0 || asked != 0:
		if !m.rules.Strict() && m.misfit(whole) == nil {
			return whole, nil
		}
		return b, nil // rows with too few ids are refused one by one
	}
	return m.guessBlock(b)
}

// misfit returns the first row whose list has another length than its prompt has blocks; nil: all fit. Rows without a length or ids fit.
func (m *Mooncake) misfit(b rowBlock) *misfit {
	for _, t := range m.order {
		for k := range t.Entries {
			if r := &t.Entries[k].Request; r.In != lengthByIDs && r.IDs.Len > 0 && int64(r.IDs.Len) != b.need(r.In) {
				return &misfit{r, t.Rows[k]}
			}
		}
	}
	return nil
}

// misfit is a row that does not fit a block size.
type misfit struct {
	*trace.Request
	row int
}

// guessBlock returns the only way to divide prompts into blocks that fits all rows, where the usual one does not.
func (m *Mooncake) guessBlock(usual rowBlock) (rowBlock, *trace.Error) {
	var fit []rowBlock
	for _, size := range guessedBlocks {
		for _, down := range []bool{false, true} { // both fit where prompts have whole blocks alone, and are the same then
			if b := (rowBlock{size, down}); m.misfit(b) == nil {
				fit = append(fit, b)
				break
			}
		}
	}
	if len(fit) == 1 {
		m.order[0].Oddities.Add(trace.OddityGuessedBlock, "blocks of %v", fit[0])
		return fit[0], nil
	}
	wrong := m.misfit(usual)
	e := &trace.Error{Kind: trace.Unclear, Row: wrong.row, Hint: "--set block_size=N, the tokens of a block",
		Problem: fmt.Sprintf("input_length %d and %d hash_ids do not fit blocks of %d tokens, and ", wrong.In, wrong.IDs.Len, usual.size)}
	if len(fit) == 0 {
		e.Problem += fmt.Sprintf("no block size fits all rows of the file: tried %s, rounded up and down", strings.Trim(fmt.Sprint(guessedBlocks), "[]"))
		return usual, e
	}
	var names []string
	for _, b := range fit {
		names = append(names, b.String())
	}
	e.Problem += "several block sizes fit all rows of the file: " + strings.Join(names, "; ")
	return usual, e
}

// Traces returns the sessions of the file in the order of their first rows, on a clock that begins with the earliest. The error, an
// *Error, is about the whole file. Invalid returns rows that turned out invalid: their sessions are left out.
func (m *Mooncake) Traces() ([]*trace.Trace, error) {
	b, err := m.settleBlocks()
	if err == nil && m.large && m.negative {
		err = &trace.Error{Kind: trace.Unclear, Problem: "hash_ids of the file has numbers from 2^63 on and negative ones: each may be the 64 bits of the other",
			Hint: "ids of 64 bits, all with a sign or all without"}
	}
	if err != nil {
		return nil, err
	}
	for _, t := range m.order {
		t.BlockSize, t.Namespace = b.size, m.Namespace
		for k := range t.Entries {
			e := &t.Entries[k]
			if err := b.settle(&e.Request); err != nil {
				err.Row = t.Rows[k]
				m.invalid = append(m.invalid, err)
				m.spoiled[t.ID] = true
			}
		}
	}
	if err := m.settleSessions(b); err != nil {
		return nil, err
	}
	m.order = slices.DeleteFunc(m.order, func(t *trace.Trace) bool { return m.spoiled[t.ID] })
	first := math.Inf(1)
	for _, t := range m.order {
		first = min(first, t.Entries[0].T)
	}
	for _, t := range m.order {
		for k := range t.Entries {
			t.Entries[k].T -= first
		}
	}
	return m.order, nil
}

// Invalid returns why rows are invalid that Add took, after Traces.
func (m *Mooncake) Invalid() []*trace.Error { return m.invalid }
