package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Asked by a flag, a replay explains the flags that most runs need, in the order of use; agentx help replay explains all.
func TestHelpInTwoSizes(t *testing.T) {
	said := func(args ...string) string {
		out := new(strings.Builder)
		require.Zero(t, run(args, nil, out, out))
		return out.String()
	}
	short, whole, table := said("replay", "-h"), said("help", "replay"), said("help", "settings")
	require.Equal(t, short, said("replay", "--help"))
	require.Equal(t, len(shortFlags), strings.Count(short, "\n      --"))
	require.Equal(t, 4, strings.Count(short, "\n  agentx replay ")-1) // and the line of usage
	from := 0
	for _, name := range shortFlags {
		at := strings.Index(short[from:], "\n      --"+name+" ")
		require.GreaterOrEqual(t, at, 0, name)
		from += at
		require.Contains(t, whole, "\n      --"+name+" ")
	}
	for _, name := range []string{"--no-preflight", "--itl-divisor"} {
		require.NotContains(t, short, name)
		require.Contains(t, whole, name)
		require.Contains(t, table, "\n  "+name[2:]+" ")
	}
	require.NotContains(t, whole, "default []")
	require.Regexp(t, `\n  keep-alive +4s +300s +300s\n      how long `, table)
}

// Usage lists every flag of a replay and of a simulation in a group, so that a reader finds those that every run needs.
func TestEveryFlagHasAGroup(t *testing.T) {
	for _, cmd := range []string{"replay", "simulate"} {
		verb, _, _ := newRoot().Find([]string{cmd})
		verb.Flags().VisitAll(func(f *pflag.Flag) { assert.NotEmpty(t, f.Annotations["group"], "--%s", f.Name) })
	}
}
