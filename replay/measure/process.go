package measure

import "time"

// ProcessUsage is what this process has used so far; zero where the system does not tell.
type ProcessUsage struct {
	CPU     time.Duration // user and system, all threads
	PeakRSS int64         // bytes of memory, mapped files included, at the highest point
}

// Since is the use since an earlier reading. The peak has no beginning: it is that of the whole process.
func (p ProcessUsage) Since(earlier ProcessUsage) ProcessUsage {
	return ProcessUsage{CPU: p.CPU - earlier.CPU, PeakRSS: p.PeakRSS}
}
