package simulate

import (
	"errors"
	"fmt"
	"sync"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
	"github.com/agentx/agentx/mmapcache"
)

// Input is the structure of a cache: lengths, times and ids of prompts, without their text. Several runs may use it at a
// time.
type Input struct {
	cache    *mmapcache.Cache
	mooncake bool
	block    int // tokens that an id of the first trace stands for

	mu       sync.Mutex
	sessions map[numbering]*workload.Sessions // made once for each
}

// numbering is what the chain numbers of prompts depend on.
type numbering struct {
	block int
	width preset.Choice
}

// NewInput returns the input of a cache, of which it reads the tables alone. It refuses one that mixes formats.
func NewInput(c *mmapcache.Cache) (*Input, error) {
	n := c.Facts.Generations[mmapcache.FormatMooncake]
	switch traces := c.Traces(); {
	case traces == 0:
		return nil, errors.New("the input has no trace to simulate")
	case c.Facts.Rules.LiveAnswers:
		return nil, errors.New("the rows of its sessions go behind answers that only a replay gets (session_rows=live): want a cache with session_rows=new, which has filler in their place")
	case n > 0 && n < traces:
		return nil, fmt.Errorf("%d traces of Mooncake and %d of Weka: want one format", n, traces-n)
	}
	first, err := c.Trace(0)
	if err != nil {
		return nil, err
	}
	return &Input{cache: c, mooncake: n > 0, block: int(first.BlockSize), sessions: map[numbering]*workload.Sessions{}}, nil
}

// Mooncake reports whether the traces were made of Mooncake rows. Others are trees of sessions.
func (in *Input) Mooncake() bool { return in.mooncake }

// Cache returns the cache, of which only the tables may be open.
func (in *Input) Cache() *mmapcache.Cache { return in.cache }

// BlockSize returns the tokens that a hash id of the first trace stands for.
func (in *Input) BlockSize() int { return in.block }

// sessionsOf returns the sessions of Mooncake rows, or the roots of trees, with blocks numbered for an engine.
func (in *Input) sessionsOf(block int, width preset.Choice) (*workload.Sessions, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	key := numbering{block, width}
	if s := in.sessions[key]; s != nil {
		return s, nil
	}
	number := workload.Roots
	if in.mooncake {
		number = workload.Mooncake
	}
	s, err := number(in.cache, block, width)
	if err == nil {
		in.sessions[key] = s
	}
	return s, err
}
