package convert

import (
	"errors"
	"maps"
	"slices"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/mmapcache"
)

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

func addSkipped(sum *mmapcache.StructureFacts, f mmapcache.StructureFacts, firstFile int) {
	room := min(len(f.Skipped), mmapcache.MaxListed-len(sum.Skipped))
	for _, skipped := range f.Skipped[:room] {
		skipped.File += firstFile
		sum.Skipped = append(sum.Skipped, skipped)
	}
	sum.SkippedMore += f.SkippedMore + len(f.Skipped) - room
}

func addUnknown(sum *mmapcache.StructureFacts, f mmapcache.StructureFacts) {
	sum.UnknownMore += f.UnknownMore
	for _, name := range slices.Sorted(maps.Keys(f.Unknown)) {
		countUnknown(sum, name, f.UnknownIn[name], f.Unknown[name])
	}
}
