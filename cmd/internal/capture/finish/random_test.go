package finish

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// randomSession writes a journal of random requests of several agents that overlap, fail, are retried and lost.
func randomSession(s *script, random *rand.Rand) {
	outcomes := []journal.Outcome{"", "", "", "", "", "", journal.Partial, journal.ClientGone, journal.BadStatus, journal.NoOutput, journal.Aborted}
	blocks, known := []int{}, []int{} // of requests whose blocks are known
	now := int64(0)
	for q := range random.IntN(30) {
		now += random.Int64N(3000)
		a := ask{q: q, agent: random.IntN(3), begin: now, base: -1, add: 1 + random.IntN(5), tail: random.IntN(4), x: outcomes[random.IntN(len(outcomes))], system: random.IntN(3)}
		if a.end = now + random.Int64N(9000); random.IntN(2) == 0 {
			a.first = now + random.Int64N(a.end-now+1)
		}
		if len(known) > 0 && random.IntN(5) > 0 {
			k := random.IntN(len(known))
			a.base, a.keep, a.add = known[k], 1+random.IntN(blocks[k]), random.IntN(3)
		}
		s.start(a)
		if random.IntN(15) == 0 {
			require.NoError(s.t, s.Write(journal.Hole{Q: q, Reason: journal.HoleQueue}))
		} else {
			s.ids(a)
			known, blocks = append(known, q), append(blocks, a.keep+a.add)
		}
		s.stop(a)
	}
}

// Traces of random sessions pass their check under all flags, no profile of conversion refuses one, and every request is counted.
func TestRandomSessions(t *testing.T) {
	folder := openFolder(t)
	written := 0
	for seed := range uint64(250) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := newScriptIn(t, folder, journal.Export{
			Grid:   []time.Duration{0, time.Millisecond, time.Second}[random.IntN(3)],
			MaxGap: []time.Duration{0, time.Millisecond, 2 * time.Second}[random.IntN(3)],
			Masks:  journal.Masks(random.IntN(8)),
			Holes:  []journal.Holes{journal.HolesCut, journal.HolesDrop, journal.HolesKeep}[random.IntN(3)],
		})
		randomSession(s, random)
		f, trace := s.built()
		var n note
		require.NoError(t, json.Unmarshal(f.note, &n))
		for _, alarm := range n.Alarms {
			assert.NotContains(t, alarm, "refuses", "seed %d: %s", seed, f.trace)
		}
		reasons := 0
		for _, count := range f.NotRecorded {
			reasons += count
		}
		assert.Equal(t, f.Requests, f.Recorded+reasons, "seed %d", seed)
		if trace != nil {
			written++
		}
		require.NoError(t, s.Close())
		require.NoError(t, folder.Remove(head.Trace))
	}
	assert.Greater(t, written, 100)
}
