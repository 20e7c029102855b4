//go:build unix

package replay

import "golang.org/x/sys/unix"

// openFiles returns how many files the process may have open; 0: there is no bound. The runtime of Go has raised the limit to the hard one
// when the process began; where something has lowered it since, openFiles does that again if fewer are allowed than wanted.
func openFiles(want int) int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	if uint64(limit.Cur) < uint64(want) && uint64(limit.Cur) < uint64(limit.Max) {
		raised := limit
		raised.Cur = limit.Max
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
			limit = raised
		}
	}
	if uint64(limit.Cur) > 1<<30 {
		return 0
	}
	return int(limit.Cur)
}
