package convert

import (
	"cmp"
	"crypto/sha256"
	"strings"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// format is a format of rows of text. The next one is a package that imports trace and a lexer, and a row of formats.
type format struct {
	name string                  // that its traces have as trace.Trace.Format
	what string                  // for messages: what one of its traces is
	is   func(first []byte) bool // the first row

	suffix string // of files whose rows are lines of text that is no JSON, such as ".csv"; else ""

	scan scanFunc // of a format whose rows are traces; else nil
	open openFunc // of a format whose rows make traces when all of a file are read; else nil

	// sample has rows that exercise the reader. Keys of inputs of the format contain a digest of what they become, and no other
	// keys do. Weka and Mooncake have none: their samples are those of probe.go, which were in keys before.
	sample string
}

type scanFunc func(row []byte, r rules.Rules, reserve trace.Reserve) (*trace.Trace, error)

// openFunc begins a file, which has a number from 0, and whose ids name blocks of a namespace. reserve is asked for what a row takes until the end.
type openFunc func(number, namespace int, r rules.Rules, reserve trace.Reserve) fileReader

// fileReader takes the rows of one file. Their traces are known when all are read, with the rows that each is of (trace.Trace.Rows), and so are
// rows that turn out invalid.
type fileReader interface {
	Add(row []byte) error
	Traces() ([]*trace.Trace, error)
	Invalid() []*trace.Error
}

// formats are tried in this order on the first row of each file. The last is that of all others, and the one that Parquet has.
var formats = []format{
	{name: mmapcache.FormatMooncake, what: "Mooncake rows", is: weka.IsMooncake, open: func(number, namespace int, r rules.Rules, reserve trace.Reserve) fileReader {
		m := weka.NewMooncake(number, r)
		m.Namespace, m.Reserve = namespace, reserve
		return m
	}},
	{name: "weka", what: "a Weka trace", is: func([]byte) bool { return true }, scan: weka.ScanWithin},
}

// textFormats returns the formats of files that hold no JSON.
func textFormats() (list []hfsource.TextFormat) {
	for _, f := range formats {
		if f.suffix != "" {
			list = append(list, hfsource.TextFormat{Suffix: f.suffix, Is: f.is})
		}
	}
	return list
}

// formatNamed returns the format of a name, the last for others: traces of Weka have the names of its generations.
func formatNamed(name string) *format {
	for k := range formats {
		if formats[k].name == name {
			return &formats[k]
		}
	}
	return &formats[len(formats)-1]
}

// formatOf returns the format of a file whose first row is given.
func formatOf(first []byte) *format {
	k := 0
	for !formats[k].is(first) {
		k++
	}
	return &formats[k]
}

// read scans a row, and names the format of its trace where the reader does not.
func (f *format) read(row []byte, r rules.Rules, reserve trace.Reserve) (*trace.Trace, error) {
	t, err := f.scan(row, r, reserve)
	if err == nil {
		t.Format = cmp.Or(t.Format, f.name)
	}
	return t, err
}

// formatProbes returns, by name, the probes of the formats of files that have a sample.
func formatProbes(s *hfsource.Snapshot, r rules.Rules) map[string]string {
	probes := map[string]string{}
	for _, file := range s.Files {
		if f := formatNamed(file.Rows); f.sample != "" && probes[f.name] == "" {
			probes[f.name] = f.probe(r)
		}
	}
	return probes
}

// probe returns the digest of what the sample becomes.
func (f *format) probe(r rules.Rules) string {
	p := &structureProbe{hash: sha256.New(), rules: r, caches: prefixCaches{}}
	if f.open != nil {
		p.addFile(f.sample, f.open(0, 0, r, nil))
		return hexSum(p.hash)
	}
	for row := range strings.Lines(f.sample) {
		p.add(f.read([]byte(row), r, nil))
	}
	return hexSum(p.hash)
}
