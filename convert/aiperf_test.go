package convert

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/mmapcache"
)

// verdict is the result of one program for a trace: digests, or a refusal.
type verdict struct {
	mmapcache.Digest
	Warped  string `json:"digest_warped"` // of the times under a cap of warpCap on idle gaps, "" where those are refused
	Refused string `json:"refused"`
}

// warpCap is the cap of verdict.Warped, seconds.
const warpCap = 60

// verdicts converts traces, one a row, and returns the result for each.
func verdicts(t *testing.T, o Options, rows []string) []verdict {
	const sound = `{"id":"sound","models":[],"block_size":64,"hash_id_scope":"local","requests":[]}` // so that there is a dataset
	o.Inputs, o.SkipInvalid = []string{lines(t, append([]string{sound}, rows...)...)}, true
	r := o.convert(t)
	c := openResult(t, o, r)
	list := make([]verdict, len(rows)+1)
	for _, s := range r.Facts.Skipped {
		list[s.Line-1].Refused = s.Reason
	}
	i := 0
	for k := range list {
		if list[k].Refused != "" {
			continue
		}
		var err error
		if list[k].Digest, err = c.Digest(i, "test-model"); err != nil { // a reader's refusal, such as a negative delay
			list[k].Refused = err.Error()
		} else {
			p, err := c.Plan(i)
			require.NoError(t, err)
			list[k].Warped = warpedTimes(p, o.Rules)
		}
		i++
	}
	return list[1:]
}

// warpedTimes is the digest of the times of a trace under the cap, "" where the rules refuse them.
func warpedTimes(p *mmapcache.Plan, r rules.Rules) string {
	times, err := p.Times(r.TimeRules(), mmapcache.View{Warped: true, TraceCap: warpCap})
	if err != nil {
		return ""
	}
	bits := func(ms float64) string {
		if math.IsNaN(ms) {
			return "-"
		}
		return fmt.Sprintf("%016x", math.Float64bits(ms+0))
	}
	h := sha256.New()
	for n, s := range p.Sessions {
		fmt.Fprintf(h, "C\t%s\n", s.ID)
		for _, b := range times.Branches {
			if n == 0 {
				fmt.Fprintf(h, "B\t%s\t%s\n", b.ID, bits(b.Start))
			}
		}
		for k, u := range times.Turns[s.FirstTurn:][:s.Turns] {
			fmt.Fprintf(h, "T\t%d\t%s\t%s\t%s\n", k, bits(u.Start), bits(u.Delay), bits(u.API))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Traces for which AIPerf 0.13.0 does something unexpected are converted, or refused, as by AIPerf. The digests of messages
// need its prompt corpus: make test-oracle compares them.
func TestReleaseCases(t *testing.T) {
	names, rows, want := releaseCases(t)
	o := options(t)
	o.Rules, o.Placement = rules.AIPerf(), rules.Placement{Backend: rules.SHA256MT, Seed: 42, Stream: rules.CodingStream}
	for k, got := range verdicts(t, o, rows) {
		t.Run(names[k], func(t *testing.T) {
			got.ID, got.Messages, want[k].Messages = "", "", ""
			assert.Equal(t, want[k].Refused != "", got.Refused != "", "refused here: %q, by AIPerf: %q", got.Refused, want[k].Refused)
			got.Refused, want[k].Refused = "", ""
			assert.Equal(t, want[k], got)
		})
	}
}

// releaseCases returns the traces of the fixtures, one a row, and AIPerf's results for them.
func releaseCases(t *testing.T) (names, rows []string, want []verdict) {
	for all := bufio.NewScanner(bytes.NewReader(fixtures.ReleaseCases())); all.Scan(); {
		c := decode[struct {
			Name    string
			Trace   json.RawMessage
			Release verdict
		}](t, all.Text())
		names, rows, want = append(names, c.Name), append(rows, string(c.Trace)), append(want, c.Release)
	}
	require.NotEmpty(t, rows)
	return names, rows, want
}
