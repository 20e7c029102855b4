package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
)

//
func TestGoodputOfTables(t *testing.T) {
	answered := func(sent, ttft, latency int64, bucket measure.Bucket) measure.Record {
		return measure.Record{Phase: measure.ProfilingPhase, Numbers: measure.Numbers{Sent: at(sent), Admitted: at(sent), FirstToken: at(sent + ttft), LastToken: at(sent + latency), End: at(sent + latency), Status: 200}, Bucket: bucket}
	}
	failed := answered(0, second, 2*second, measure.Profiling)
	failed.Error = &measure.Error{Category: "timeout"}
	records := []measure.Record{
		answered(0, second, 2*second, measure.Profiling), answered(2*second, 3*second, 4*second, measure.Profiling), answered(4*second, second/2, 4*second, measure.Profiling),
		failed, answered(8*second, second, 4*second, measure.Cooldown),
	}
	records[4].Deadline = measure.At(10)
	info := infoOf(preset.Default, 12)
	require.Nil(t, compute(t, info, records...).Headline.Find("good_request_count"))
	c, err := measure.ParseCondition("ttft<=1s")
	require.NoError(t, err)
	info.SLO, info.Facts.Deadline = append(info.SLO, c), 10
	run := writeRun(t, info, records...)
	run.Slice = 4 * second
	res, err := run.Compute()
	require.NoError(t, err)
	requireStats(t, res.Headline, "good_request_count", map[string]float64{"avg": 2})
	requireStats(t, res.Headline, "good_request_fraction", map[string]float64{"avg": 0.5})
	requireStats(t, res.Headline, "goodput", map[string]float64{"avg": 2.0 / 10})
	requireStats(t, res.Cooldown, "good_request_count", map[string]float64{"avg": 1})
	requireStats(t, res.Steady, "goodput", map[string]float64{"avg": 2.5 / 10})
	requireStats(t, res.Slices[0].Table, "good_request_fraction", map[string]float64{"avg": 1.0 / 3})
	requireStats(t, res.Slices[0].Table, "goodput", map[string]float64{"avg": 1.0 / 4})
}
