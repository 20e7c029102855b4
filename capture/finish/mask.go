package finish

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/agentx/agentx/capture/journal"
)

// masks hides what the flags of a capture say.
type masks struct {
	journal.Masks
	trace  string
	models map[string]string // by name, in the order of first use
}

func newMasks(s *journal.Session) masks {
	return masks{s.Export.Masks, s.Trace, map[string]string{}}
}

// model returns the name of a model as the trace has it.
func (m *masks) model(name string) string {
	if m.Masks&journal.MaskModels == 0 {
		return name
	}
	if m.models[name] == "" {
		m.models[name] = fmt.Sprintf("model-%d", len(m.models)+1)
	}
	return m.models[name]
}

// in returns the tokens of a prompt: of its blocks, and of a tail that a mask draws anew. The draw depends on the trace and the
// request alone, so that each reader of a journal draws the same.
func (m *masks) in(blockSize int, r *journal.Request) int {
	if m.Masks&journal.MaskTails == 0 {
		return r.IDs.In
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "tail %s %d", m.trace, r.Q))
	draw := binary.LittleEndian.Uint64(sum[:])
	if blocks := r.Blocks(); blocks > 0 {
		return blocks*blockSize + int(draw%uint64(blockSize))
	}
	return 1 + int(draw%uint64(blockSize-1)) // a prompt has at least one token
}
