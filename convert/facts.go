package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
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
		return fmt.Errorf("trace %q: block_size %d is larger than the corpus %s of %d tokens: use a longer corpus", f.MaxBlockTrace, f.MaxBlockSize, c.options.Corpus, tokens)
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
		if !trace.Harmless(o.Kind) {
			list = append(list, describeOddity(o))
		}
	}
	if len(list) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrStrict, strings.Join(list, "; "))
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

// noteFacts sums up the facts of all shards, and refuses what the flags refuse.
func (s *sharding) noteFacts() error {
	if err := s.mergeFacts(); err != nil {
		return err
	}
	located := s.facts
	located.Skipped = slices.Clone(s.facts.Skipped)
	s.locateSkipped(&located)
	s.result.Facts = located
	count := &cachestore.ShardCount{}
	for k, list := range s.shards {
		count.Total += len(list)
		count.Found += len(list) - s.built[k]
	}
	s.result.Shards = count
	if s.facts.Traces == 0 {
		where, first := "", error(nil)
		if len(located.Skipped) > 0 {
			where, first = located.Skipped[0].Where, errors.New(located.Skipped[0].Reason)
		}
		return errNoTrace(s.snapshot, s.facts.AllSkipped(), where, first)
	}
	if err := s.enforceFlags(located); err != nil {
		return err
	}
	s.warnWithoutChecksum()
	return s.warnStarts()
}

// warnStarts warns of inexact windows in the starts of all shards.
func (s *sharding) warnStarts() error {
	var sum mmapcache.PlacementFacts
	for _, sh := range s.list() {
		f, err := mmapcache.PlacementFactsOf(sh.starts)
		if err != nil {
			return err
		}
		sum.Windows, sum.Inexact = sum.Windows+f.Windows, sum.Inexact+f.Inexact
		if sum.Why == "" {
			sum.Why = f.Why
		}
	}
	s.warnInexact(sum)
	return nil
}

// mergeFacts computes the facts of all shards: those that one structure of all rows would have.
func (s *sharding) mergeFacts() error {
	s.facts = emptyFacts(s.options.Rules.TimeRules())
	for k, list := range s.shards {
		for _, sh := range list {
			f, err := mmapcache.StructureFactsOf(sh.structure)
			if err != nil {
				return err
			}
			addFacts(&s.facts, f, s.units[k].from)
		}
	}
	return nil
}

// addFacts adds the facts of the next trace or shard. Its first file is number firstFile of the input, from 0.
func addFacts(sum *mmapcache.StructureFacts, f mmapcache.StructureFacts, firstFile int) {
	sum.Traces += f.Traces
	sum.Sessions += f.Sessions
	sum.Turns += f.Turns
	sum.Blocks += f.Blocks
	sum.PromptTokens += f.PromptTokens
	sum.OutputTokens += f.OutputTokens
	sum.Dropped += f.Dropped
	sum.Ambiguous += f.Ambiguous
	sum.Seams += f.Seams
	sum.Unclassified += f.Unclassified
	sum.ChainBreaks += f.ChainBreaks
	if f.MaxBlockSize > sum.MaxBlockSize {
		sum.MaxBlockSize, sum.MaxBlockTrace = f.MaxBlockSize, f.MaxBlockTrace
	}
	for generation, n := range f.Generations {
		sum.Generations[generation] += n
	}
	for _, n := range f.FilesWithoutChecksum {
		sum.FilesWithoutChecksum = append(sum.FilesWithoutChecksum, firstFile+n)
	}
	for _, o := range f.Oddities {
		addOddity(sum, o)
	}
	addSkipped(sum, f, firstFile)
	addUnknown(sum, f)
}

// addSkipped adds the list of skipped traces, up to MaxListed, and counts the others. firstFile is as in addFacts.
func addSkipped(sum *mmapcache.StructureFacts, f mmapcache.StructureFacts, firstFile int) {
	room := min(len(f.Skipped), mmapcache.MaxListed-len(sum.Skipped))
	for _, skipped := range f.Skipped[:room] {
		skipped.File += firstFile
		sum.Skipped = append(sum.Skipped, skipped)
	}
	sum.SkippedMore += f.SkippedMore + len(f.Skipped) - room
}

// addUnknown adds how often unknown keys and types occur, by name.
func addUnknown(sum *mmapcache.StructureFacts, f mmapcache.StructureFacts) {
	sum.UnknownMore += f.UnknownMore
	for _, name := range slices.Sorted(maps.Keys(f.Unknown)) {
		countUnknown(sum, name, f.UnknownIn[name], f.Unknown[name])
	}
}
