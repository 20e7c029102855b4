package resume_test

import (
	"fmt"

	"github.com/agentx/agentx/replay/resume"
)

// A lane begins between a quarter and three quarters of its trace. The same seed, trace and lane begin at the same instant.
func Example() {
	ratios := resume.Ratios{Min: 0.25, Max: 0.75}
	const first, last = 0, 60_000 // milliseconds
	at := ratios.Instant(first, last, resume.LaneSeed("42", "fix-the-tests", 0))
	again := ratios.Instant(first, last, resume.LaneSeed("42", "fix-the-tests", 0))
	fmt.Println(at == again, at >= 15_000, at <= 45_000)
	// Output: true true true
}
