package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// enforceFlags returns an error if SkipInvalid or Strict refuses what the traces contain. It runs for hits and builds alike,
// before anything is published.
//
// A block that is longer than the prompt corpus always fails, and cannot be skipped: which traces make a structure must not
// depend on the corpus.
func (c *conversion) enforceFlags(f mmapcache.StructureFacts) error {
	if len(f.Skipped) > 0 && !c.options.SkipInvalid {
		first := f.Skipped[0]
		return &InvalidTraceError{first.Where, errors.New(first.Reason), true}
	}
	if err := c.refuseLongBlocks(f); err != nil {
		return err
	}
	if c.options.Strict {
		return refuseOddities(f)
	}
	return nil
}

// refuseLongBlocks fails if a block is longer than the prompt corpus, once that is known.
func (c *conversion) refuseLongBlocks(f mmapcache.StructureFacts) error {
	if tokens := c.prompts.tokens; tokens != 0 && f.MaxBlockSize > tokens {
		return fmt.Errorf("trace %q: block_size %d is larger than the corpus %s of %d tokens: use a longer --corpus", f.MaxBlockTrace, f.MaxBlockSize, c.options.Corpus, tokens)
	}
	return nil
}

// locateSkipped adds the paths of this run to the skipped traces. The manifest has only the numbers of the files, because
// its content must not depend on their names.
func (c *conversion) locateSkipped(f *mmapcache.StructureFacts) {
	for k := range f.Skipped {
		s := &f.Skipped[k]
		row := hfsource.Row{File: c.snapshot.Files[s.File-1].Path, Line: s.Line}
		s.Where = row.Location()
	}
}

// refuseOddities fails where there are oddities or unknown keys, and lists them.
func refuseOddities(f mmapcache.StructureFacts) error {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(f.Unknown)) {
		list = append(list, describeUnknownKey(f, name))
	}
	for _, o := range f.Oddities {
		if o.Kind != trace.OddityAnswers {
			list = append(list, describeOddity(o))
		}
	}
	if len(list) == 0 {
		return nil
	}
	return fmt.Errorf("--strict refuses what is otherwise warned of: %s", strings.Join(list, "; "))
}

// describeUnknownKey says in one line what an unknown key is, how often it occurs, and in which trace first. The name is a
// key of f.Unknown.
func describeUnknownKey(f mmapcache.StructureFacts, name string) string {
	what := fmt.Sprintf("unknown key %q", name)
	if kind, ok := strings.CutPrefix(name, "type "); ok { // already quoted by the scanner
		what = "unknown request type " + kind
	}
	return fmt.Sprintf("%s, %s, first in %s", what, times(f.Unknown[name]), f.UnknownIn[name])
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// describeOddity says in one line what an oddity is, how often it occurs, and where first.
func describeOddity(o mmapcache.Oddity) string {
	first := ""
	if o.Count != 1 {
		first = "first "
	}
	return fmt.Sprintf("%s (%s, %sin trace %q: %s)", trace.OddityText(o.Kind), times(o.Count), first, o.Trace, o.First)
}
