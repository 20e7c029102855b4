package simulate

import (
	"errors"
	"fmt"
	"sync"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/simulate/preset"
	"github.com/agentx/agentx/simulate/workload"
)

// Input is the structure of a cache: lengths, times and ids of prompts, without their text. Several runs may use it at a
// time.
type Input struct {
	structure *mmapcache.Structure
	mooncake  bool

	mu       sync.Mutex
	sessions map[numbering]*workload.Sessions // made once for each
}

// numbering is what the chain numbers of prompts depend on.
type numbering struct {
	block int
	width preset.IDWidth
}

// mooncakeFormat is how a structure calls traces that were made of Mooncake rows.
const mooncakeFormat = "mooncake"

// NewInput returns the input of a structure. It refuses one that mixes formats.
func NewInput(s *mmapcache.Structure, f mmapcache.StructureFacts) (*Input, error) {
	n := f.Generations[mooncakeFormat]
	switch traces := s.Traces.Len(); {
	case traces == 0:
		return nil, errors.New("no trace: nothing to simulate")
	case n > 0 && n < traces:
		return nil, fmt.Errorf("%d traces of Mooncake and %d of Weka: want one format", n, traces-n)
	}
	return &Input{structure: s, mooncake: n > 0, sessions: map[numbering]*workload.Sessions{}}, nil
}

// Mooncake reports whether the traces were made of Mooncake rows. Others are trees of sessions.
func (in *Input) Mooncake() bool { return in.mooncake }

// Structure returns the structure.
func (in *Input) Structure() *mmapcache.Structure { return in.structure }

// BlockSize returns the tokens that a hash id of the first trace stands for.
func (in *Input) BlockSize() int { return int(in.structure.Traces.At(0).BlockSize) }

// sessionsOf returns the sessions of Mooncake rows, with blocks numbered for an engine.
func (in *Input) sessionsOf(block int, width preset.IDWidth) (*workload.Sessions, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	key := numbering{block, width}
	if s := in.sessions[key]; s != nil {
		return s, nil
	}
	s, err := workload.Mooncake(in.structure, block, width)
	if err == nil {
		in.sessions[key] = s
	}
	return s, err
}
