package convert

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"
	"strings"

	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource/column"
	"github.com/agentx/agentx/hfsource/parquet"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// A probe is the digest of what this program builds from a small input that exercises every rule. Every key contains one,
// so that a change of what is built changes the keys even where Recipe was not raised. probe_test.go pins the digests, and
// shows that every rule changes them.

var (
	//go:embed probe.jsonl
	probeTraces []byte
	//go:embed probe.parquet
	probeParquet []byte // the same traces
	//go:embed probe-mooncake.jsonl
	probeMooncake string
	//go:embed probe-mooncake-files.jsonl
	probeMooncakeFiles string // separated by blank lines
)

// probeTokens is the length of the corpus in which the blocks of the probe are placed.
const probeTokens = 1000

// Probes are the probes of the parts, as SHA-256 in hexadecimal.
type Probes struct {
	Structure string `json:"structure"`
	Placement string `json:"starts"`
	Arenas    string `json:"arenas"`
}

// Probe returns the probes under some rules and with a placement.
func Probe(r rules.Rules, d rules.Placement) Probes {
	plans, structure := probeStructure(r, weka.Scan)
	return Probes{structure, probePlacement(plans, d), probeArenas()}
}

// probeColumns returns the probe of the structure with traces that are read from Parquet. It equals Probes.Structure unless
// one of the two readers has changed. Keys of what is built from Parquet contain it too.
func probeColumns(r rules.Rules) string {
	_, structure := probeRows(r, func(add func(*trace.Trace, error)) {
		f, err := parquet.Open(bytes.NewReader(probeParquet), int64(len(probeParquet)))
		if err == nil {
			_, err = f.Rows(context.Background(), weka.ColumnPaths(), func(row *column.Row, free func()) error {
				add(weka.ScanColumns(row, r))
				free()
				return nil
			})
		}
		if err != nil {
			panic(err) // the program contains the file
		}
	})
	return structure
}

// probeStarts are Mooncake rows with recorded starts that the tables keep as they are, or refuse.
const probeStarts = `{"timestamp":12.125,"output_length":1,"hash_ids":[0]}
{"created_time":0.1,"output_length":1,"hash_ids":[0],"session_id":"s"}
{"timestamp":0,"output_length":1,"hash_ids":[0],"session_id":"s"}
{"delay":5000,"output_length":1,"hash_ids":[0],"session_id":"s"}
{"timestamp":9200000000000,"output_length":1,"hash_ids":[0]}
{"timestamp":9200000000001,"output_length":1,"hash_ids":[0]}
{"timestamp":-1,"output_length":1,"hash_ids":[0]}
{"delay":0,"output_length":1,"hash_ids":[0]}`

// ProbeStarts returns the probe of recorded starts. Keys of structures with recorded starts contain it.
func ProbeStarts(r rules.Rules) string {
	h := sha256.New()
	for _, trace := range tracesTogether(h, probeStarts, mooncakeFile{weka.NewMooncake(0, r.WithoutMooncake())}) {
		_, notes, err := reconstruct.MakePlan(trace, r)
		fmt.Fprintf(h, "%s %016x %t\n", trace.ID, math.Float64bits(notes.Start), err == nil)
	}
	return hexSum(h)
}

// ProbeMooncake returns the probe of what decides what Mooncake rows mean. Keys of structures with Mooncake rows contain it, no others.
func ProbeMooncake(r rules.Rules) string {
	p := &structureProbe{hash: sha256.New(), rules: r, caches: prefixCaches{}}
	for k, text := range strings.Split(strings.TrimSpace(probeMooncakeFiles), "\n\n") {
		m := weka.NewMooncake(k, r)
		m.Namespace = k
		p.addFile(text, mooncakeFile{m})
	}
	return hexSum(p.hash)
}

// tracesTogether returns the traces of a file whose rows make them together, and hashes what is refused.
func tracesTogether(h hash.Hash, text string, m fileReader) (list []*trace.Trace) {
	for line := range strings.Lines(text) {
		if err := m.Add([]byte(line)); err != nil {
			refuse(h, err)
		}
	}
	traces, err := m.Traces()
	if err != nil {
		refuse(h, err)
	}
	for _, e := range m.Invalid() {
		refuse(h, e)
	}
	if traces != nil {
		list = slices.Collect(traces)
	}
	return list
}

// addFile plans the traces of such a file.
func (p *structureProbe) addFile(text string, m fileReader) {
	for _, trace := range tracesTogether(p.hash, text, m) {
		plan, notes, err := reconstruct.MakePlan(trace, p.rules)
		if err != nil {
			refuse(p.hash, err)
			continue
		}
		var odd []mmapcache.Oddity
		for _, o := range notes.Oddities {
			odd = append(odd, oddityIn(o, ""))
		}
		fmt.Fprintf(p.hash, "%v\n%016x %v\n", *plan, math.Float64bits(notes.Start), odd)
	}
}

// structureProbe plans the traces of the probe and hashes everything about the plans, and which traces are refused.
type structureProbe struct {
	hash   hash.Hash
	rules  rules.Rules
	plans  []*mmapcache.Plan
	turns  int // of all plans
	caches prefixCaches
}

// probeStructure returns the plans of the probe's traces, which scan reads, and the digest of all about them.
func probeStructure(r rules.Rules, scan func([]byte, rules.Rules) (*trace.Trace, error)) (plans []*mmapcache.Plan, digest string) {
	return probeRows(r, func(add func(*trace.Trace, error)) {
		for line := range bytes.SplitSeq(bytes.TrimSpace(probeTraces), []byte("\n")) {
			add(scan(line, r))
		}
	})
}

// probeRows is probeStructure of the traces that rows reads.
func probeRows(r rules.Rules, rows func(add func(*trace.Trace, error))) (plans []*mmapcache.Plan, digest string) {
	p := &structureProbe{hash: sha256.New(), rules: r, caches: prefixCaches{}}
	rows(p.add)
	for _, trace := range tracesTogether(p.hash, probeMooncake, mooncakeFile{weka.NewMooncake(0, r.WithoutMooncake())}) { // keys of all inputs contain this probe
		p.add(trace, nil)
	}
	p.addRounded()
	for _, cache := range p.caches.sorted() {
		cache.Count(r, func(row, hits int) { fmt.Fprintf(p.hash, "%d %d\n", row, hits) })
	}
	return p.plans, hexSum(p.hash)
}

// probeRounded is a trace whose whole numbers AIPerf reads as doubles, and the default rules as they are. A column has none of them.
const probeRounded = `{"id":"r","models":[],"block_size":1,"hash_id_scope":"local","requests":[{"t":0,"type":"n","model":"m","in":2,"out":1,"hash_ids":[9007199254740993.0,1e0]}]}`

// addRounded notes how that trace is read by rules that round. Other rules have a probe without it.
func (p *structureProbe) addRounded() {
	if trace, err := weka.Scan([]byte(probeRounded), p.rules); err == nil && trace.Entries[0].IDs.Runs[0].First != 1<<53+1 {
		fmt.Fprintln(p.hash, trace.Entries[0].IDs)
	}
}

// add plans a trace that was scanned, or notes why it was not.
func (p *structureProbe) add(t *trace.Trace, err error) {
	var plan *mmapcache.Plan
	var notes reconstruct.Notes
	if err == nil {
		plan, notes, err = reconstruct.MakePlan(t, p.rules)
	}
	if err != nil {
		refuse(p.hash, err)
		return
	}
	times, err := plan.Times(p.rules.TimeRules(), mmapcache.View{})
	fmt.Fprintf(p.hash, "%v\n%v %v\n", *plan, times, err)
	fmt.Fprintf(p.hash, "%v %d %d %d %d %s\n", notes.Dropped, notes.Ambiguous, notes.Seams, notes.Unclassified, notes.ChainBreaks, notes.Format)
	if notes.Queries != nil {
		p.caches.add(plan, notes, p.turns)
	}
	p.turns += len(plan.Turns)
	p.plans = append(p.plans, plan)
}

// refuse hashes that a trace was refused, and why, but not the words of the error.
func refuse(h hash.Hash, err error) {
	var e *trace.Error
	if errors.As(err, &e) {
		fmt.Fprintf(h, "refused: %s %s\n", e.Trace, e.Kind)
		return
	}
	fmt.Fprintf(h, "refused\n")
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// probePlacement places the blocks and fillers of the plans.
func probePlacement(plans []*mmapcache.Plan, d rules.Placement) string {
	h := sha256.New()
	heads := headLengths{}
	for _, p := range plans {
		heads.add(p)
	}
	placer := reconstruct.NewPlacer(d, probeTokens, probeEdges())
	for _, p := range plans {
		blocks, fillers := placementOf(p, placer, heads)
		fmt.Fprintf(h, "%v %v\n", blocks, fillers)
	}
	if placer.Inexact > 0 {
		fmt.Fprintf(h, "%d\n", placer.Inexact)
	}
	return hexSum(h)
}

// probeEdges are made up: some windows of some lengths have places, others none.
func probeEdges() *reconstruct.Edges {
	e := &reconstruct.Edges{Flaws: []uint32{300, 301, 777}}
	for k := range uint64(probeTokens/64 + 1) {
		e.Starts, e.Ends = append(e.Starts, 0x9e3779b97f4a7c15<<k), append(e.Ends, 0xd1342543de82ef95>>k)
	}
	return e
}

// probeArenas renders a corpus in which tokens end inside characters and escapes.
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
	return hexSum(h)
}
