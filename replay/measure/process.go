package measure

import "time"

// ProcessUsage is what this process has used so far. Fields that the system does not report are 0.
type ProcessUsage struct {
	CPU     time.Duration // user and system time of all threads
	PeakRSS int64         // largest resident memory, mapped files included, bytes
}

// Since returns the usage since an earlier reading. The peak is that of the whole process.
func (p ProcessUsage) Since(earlier ProcessUsage) ProcessUsage {
	return ProcessUsage{CPU: p.CPU - earlier.CPU, PeakRSS: p.PeakRSS}
}
