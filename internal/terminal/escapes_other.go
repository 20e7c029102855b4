//go:build !windows

package terminal

import "os"

// TakesEscapes reports whether a terminal obeys escape sequences.
func TakesEscapes(*os.File) bool { return os.Getenv("TERM") != "dumb" }
