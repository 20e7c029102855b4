package main

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
)

// Usage lists every flag of a replay and of a simulation in a group, so that a reader finds those that every run needs.
func TestEveryFlagHasAGroup(t *testing.T) {
	for _, cmd := range []string{"replay", "simulate"} {
		verb, _, _ := newRoot().Find([]string{cmd})
		verb.Flags().VisitAll(func(f *pflag.Flag) { assert.NotEmpty(t, f.Annotations["group"], "--%s", f.Name) })
	}
}
