package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
)

// Placement decides where in the corpus each block and filler begins: doc/spec/reconstruction.md 2.2 and 3.2. The key of the
// placement contains it, that of the structure does not. The zero value is the back-end Exact with the seed 0.
type Placement struct {
	Backend string `json:"backend"` // Exact, XXH3 or SHA256MT; "" is Exact (D16)
	Seed    int64  `json:"seed"`    // for SHA256MT the bits of an unsigned seed
	Stream  string `json:"stream"`  // for SHA256MT the name of the corpus's stream of seeds, CodingStream or SonnetStream; else ""
}

// Back-ends, from a seed to places in the corpus.
const (
	Exact    = "exact"     // hashes, over the places at which a tokenizer gives the tokens of the window again
	XXH3     = "xxh3"      // hashes, uniform over the corpus
	SHA256MT = "sha256-mt" // AIPerf's: SHA-256 and a Mersenne Twister
)

// Streams of seeds from which AIPerf cuts its corpora.
const (
	CodingStream = "dataset.coding_content.corpus"
	SonnetStream = "dataset.prompt.corpus"
)

// Backends lists the back-ends.
func Backends() []string { return []string{Exact, XXH3, SHA256MT} }

// WithDefaults returns p with Exact for an empty back-end.
func (p Placement) WithDefaults() Placement {
	p.Backend = cmp.Or(p.Backend, Exact)
	return p
}

// Validate reports the first field with a value that is not allowed: its JSON name, the value, and what is allowed.
func (p Placement) Validate() error {
	switch backend := p.WithDefaults().Backend; backend {
	case Exact, XXH3:
		if p.Stream != "" {
			return fmt.Errorf("stream %q: want none with the back-end %s", p.Stream, backend)
		}
	case SHA256MT:
		if p.Stream != "" && p.Stream != CodingStream && p.Stream != SonnetStream {
			return fmt.Errorf("stream %q: want %s or %s", p.Stream, CodingStream, SonnetStream)
		}
	default:
		return fmt.Errorf("backend %q: want %s, %s or %s", p.Backend, Exact, XXH3, SHA256MT)
	}
	return nil
}

// MarshalJSON writes the placement as keys contain it: the seed of SHA256MT without a sign, and Exact for an empty back-end.
func (p Placement) MarshalJSON() ([]byte, error) {
	type plain Placement // without this method
	p = p.WithDefaults()
	if p.Backend != SHA256MT {
		return json.Marshal(plain(p))
	}
	return json.Marshal(struct {
		plain
		Seed uint64 `json:"seed"`
	}{plain(p), uint64(p.Seed)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Placement) UnmarshalJSON(data []byte) error {
	type plain Placement
	var both struct {
		plain
		Seed json.Number `json:"seed"`
	}
	if err := json.Unmarshal(data, &both); err != nil {
		return err
	}
	*p = Placement(both.plain)
	unsigned, err := strconv.ParseUint(string(both.Seed), 10, 64)
	if p.Seed = int64(unsigned); err != nil || p.Backend != SHA256MT {
		p.Seed, err = strconv.ParseInt(string(both.Seed), 10, 64)
	}
	return err
}
