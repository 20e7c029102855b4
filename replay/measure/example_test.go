package measure_test

import (
	"fmt"

	"github.com/agentx/agentx/replay/measure"
)

func ExamplePercentile() {
	sorted := []float64{10, 20, 30, 40}
	fmt.Println(measure.Percentile(sorted, 50), measure.Percentile(sorted, 90), measure.Percentile(sorted, 100))
	// Output: 25 37 40
}

func ExampleAggregate() {
	a := measure.NewAggregate(measure.Rules{})
	for i, ttft := range []float64{0.2, 0.4} {
		sent := float64(i)
		a.Add(&measure.Record{
			Bucket: measure.Profiling, Lane: i, Numbers: measure.Numbers{Sent: measure.At(sent), FirstToken: measure.At(sent + ttft), LastToken: measure.At(sent + 1),
				PromptTokens: measure.Tokens(1000), OutputTokens: measure.Tokens(50), MaxTokens: 50, RecordedISL: 1000}, Transfer: measure.Transfer{Chunks: 50},
		})
	}
	s := a.Summary(measure.RunInfo{Lanes: 2})
	fmt.Printf("%d completed, TTFT p50 %.1f s, %.0f output tokens/s\n", s.Completed, s.TTFT.P50, s.OutputTokenRate)
	// Output: 2 completed, TTFT p50 0.3 s, 50 output tokens/s
}
