package report_test

import (
	"encoding/json"
	"fmt"

	"github.com/agentx/agentx/report"
)

// Nanoseconds since 1970 keep every digit.
func ExampleNumber() {
	at := report.Int(1700000000123456789)
	text, err := json.Marshal([]report.Number{at, report.Float(0.5)})
	fmt.Println(string(text), err)
	// Output: [1700000000123456789,0.5] <nil>
}

// What a killed run has not written is no error: Missing has a line for each.
func ExampleOpen() {
	run, err := report.Open("nosuch")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, line := range run.Missing {
		fmt.Println(line)
	}
	// Output: nosuch: there is no run.json: what was run is not known
}
