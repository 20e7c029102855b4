package profile

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// pinnedLine are the flags of the line of InferenceX that the release lacks.
var pinnedLine = []string{"--warmup-requests-per-lane", "--use-dynamo-conv-aware-routing", "--dynamo-session-timeout-seconds"}

// The table has every name of every flag of AIPerf 0.13.0 once, and those of the pinned line.
func TestAIPerfFlagsAreThoseOfTheRelease(t *testing.T) {
	have := slices.Sorted(slices.Values(Flags()))
	want := append(strings.Fields(fixtures.AIPerfFlags()), pinnedLine...)
	slices.Sort(want)
	require.Equal(t, want, have)
}

// Every flag has a class and what the class asks for: something to do, or words.
func TestAIPerfFlagsAreClassified(t *testing.T) {
	count := map[class]int{}
	for _, f := range allFlags {
		count[f.class]++
		name := f.names[0]
		switch f.class {
		case classMapped:
			assert.NotNil(t, f.apply, name)
			assert.Empty(t, f.against, name)
		case classConflict:
			assert.NotNil(t, f.apply, name)
			assert.NotEmpty(t, f.against, name)
		case classMeaningless, classRefused:
			assert.Nil(t, f.apply, name)
			assert.NotEmpty(t, f.about, name)
		default:
			t.Errorf("%s: class %q", name, f.class)
		}
		for _, other := range f.against {
			assert.NotNil(t, flagNamed(other), "%s against %s", name, other)
		}
		assert.Equal(t, slices.Contains(pinnedLine, name), f.pinned, name)
	}
	t.Log(count)
	assert.Len(t, count, 4)
}

// The table of doc/aiperf.md has every flag that agentx replay gets something from.
func TestGuideHasEveryMappedFlag(t *testing.T) {
	guide, err := os.ReadFile("../../../../doc/aiperf.md")
	require.NoError(t, err)
	for _, f := range allFlags {
		if f.class == classMapped || f.class == classConflict {
			assert.Regexp(t, "(?m)^\\|[^|]*`"+f.names[0]+"[` ]", string(guide))
		}
	}
}
