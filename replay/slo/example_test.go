package slo_test

import (
	"fmt"

	"github.com/agentx/agentx/replay/slo"
)

// Read a condition and judge a value by it.
func ExampleParse() {
	known := []slo.Metric{{Name: "ttft", Unit: slo.Seconds, OfEach: true}}
	condition, err := slo.Parse("ttft.p95<2s", known)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(condition, condition.Holds(1.5), condition.Holds(2.5))
	_, err = slo.Parse("tftt.p95<2s", known)
	fmt.Println(err)
	// Output:
	// ttft.p95<2s true false
	// no metric "tftt": want one of ttft
}
