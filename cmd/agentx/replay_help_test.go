package main

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
)

// Usage lists every flag of a replay in a group, so that a reader finds those that every run needs.
func TestEveryFlagOfAReplayHasAGroup(t *testing.T) {
	newReplay(knownScenarios()).Flags().VisitAll(func(f *pflag.Flag) {
		assert.NotEmpty(t, f.Annotations[flagGroup], "--%s: put it into replayGroups", f.Name)
	})
}
