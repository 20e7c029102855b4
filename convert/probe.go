package convert

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"sort"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource/column"
	"github.com/agentx/agentx/mmapcache"
)

// The probe is the digest of what this program makes of a small corpus that stresses every rule. It is part of every
// key, so that a change of what is made cannot reach a user under an old key, whether or not anyone thought of a
// number to raise. probe_test.go pins the digests and shows which changes they notice.

var (
	//go:embed probe.jsonl
	probeTraces []byte
	//go:embed probe-mooncake.jsonl
	probeMooncake []byte
)

// probeTokens is the length of the prompt corpus in which the probe's blocks and fillers are placed.
const probeTokens = 1000

// Probes are the digests by part.
type Probes struct {
	Structure string `json:"structure"`
	Starts    string `json:"starts"`
	Arenas    string `json:"arenas"`
}

// Probe returns the digests of what this program makes under some rules and with a back-end.
func Probe(r weka.Rules, d weka.Placement) Probes {
	plans, structure := probeStructure(r, weka.Scan)
	return Probes{structure, probeStarts(plans, d), probeArenas()}
}

// ProbeColumns returns the digest Probes.Structure as it comes out when the traces are read as columns. It is that of JSON,
// unless one of the two decoders has changed: so it is in the keys of what is made from Parquet.
func ProbeColumns(r weka.Rules) string {
	_, structure := probeStructure(r, scanAsColumns)
	return structure
}

// scanAsColumns reads a trace that is given as JSON by the decoder of columns.
func scanAsColumns(line []byte, r weka.Rules) (*weka.Trace, error) {
	row, err := column.FromJSON(weka.ColumnPaths(), line)
	if err != nil {
		return nil, err
	}
	return weka.ScanColumns(row, r)
}

// refused writes down why a trace was refused, but not in which words.
func refused(h hash.Hash, err error) {
	var e *weka.Error
	if errors.As(err, &e) {
		fmt.Fprintf(h, "refused: %s %s\n", e.Trace, e.Kind)
		return
	}
	fmt.Fprintf(h, "refused\n")
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// probeStructure plans the corpus, whose traces scan reads, and writes everything about it down, refusals included.
func probeStructure(r weka.Rules, scan func([]byte, weka.Rules) (*weka.Trace, error)) (plans []*mmapcache.Plan, digest string) {
	h := sha256.New()
	shared := map[uint32]*weka.GlobalPrefixCache{}
	rows := 0
	add := func(tr *weka.Trace, err error) {
		var p *mmapcache.Plan
		var notes weka.Notes
		if err == nil {
			p, notes, err = weka.MakePlan(tr, r)
		}
		if err != nil {
			refused(h, err)
			return
		}
		times, err := p.Times(r.TimeRules(), mmapcache.View{})
		fmt.Fprintf(h, "%v\n%v %v\n", *p, times, err)
		fmt.Fprintf(h, "%v %d %d %d %d %s\n", notes.Dropped, notes.Ambiguous, notes.Seams, notes.Unclassified, notes.ChainBreaks, notes.Format)
		if notes.Queries != nil {
			size := p.Trace.BlockSize
			if shared[size] == nil {
				shared[size] = &weka.GlobalPrefixCache{}
			}
			shared[size].Add(notes.Queries, rows)
		}
		rows += len(p.Turns)
		plans = append(plans, p)
	}
	for _, line := range bytes.Split(bytes.TrimSpace(probeTraces), []byte("\n")) {
		tr, err := scan(line, r)
		add(tr, err)
	}
	m := weka.NewMooncake(0, r)
	for _, line := range bytes.Split(bytes.TrimSpace(probeMooncake), []byte("\n")) {
		if err := m.Add(line); err != nil {
			refused(h, err)
		}
	}
	for _, tr := range m.Traces() {
		add(tr, nil)
	}
	sizes := []int{}
	for size := range shared {
		sizes = append(sizes, int(size))
	}
	sort.Ints(sizes)
	for _, size := range sizes {
		shared[uint32(size)].Count(r, func(row, hits int) { fmt.Fprintf(h, "%d %d\n", row, hits) })
	}
	return plans, sum(h)
}

// probeStarts places the blocks and fillers of the corpus.
func probeStarts(plans []*mmapcache.Plan, d weka.Placement) string {
	h := sha256.New()
	placer := weka.NewPlacer(d, probeTokens)
	for _, p := range plans {
		blocks, fillers := drawTrace(p, placer)
		fmt.Fprintf(h, "%v %v\n", blocks, fillers)
	}
	return sum(h)
}

// probeArenas renders a corpus whose tokens cut characters and escapes apart.
func probeArenas() string {
	vocabulary := []string{"a", " b", "\n", "\"", "\\", "\t", "\x00", "\x1f", "\x7f", "é", "\xe4\xb8", "\xad", "中", "\xf0\x9f", "\x98\x80", "\xff", "\xc3", "e\u0301", "👩\u200d", "💻"}
	var tokens []uint32
	for k := range uint32(len(vocabulary)) {
		tokens = append(tokens, k, (k*7+3)%uint32(len(vocabulary)))
	}
	h := sha256.New()
	c := mmapcache.PromptCorpus{Tokens: tokens, Bytes: func(id uint32) ([]byte, bool) { return []byte(vocabulary[id]), true }}
	if err := c.Describe(h); err != nil {
		fmt.Fprintf(h, "refused: %v\n", err)
	}
	return sum(h)
}
