package durable

import (
	"os"
	"path/filepath"
	"strings"
)

// Holder is the process that holds a lease.
type Holder struct {
	Who  string // in words
	Dead bool   // it is a process of this machine that has ended; of another machine that is unknown
}

// Holders returns the holders of all leases of a root, by the name of the lease. It takes no lease and waits for none.
func Holders(root string) (map[string]Holder, error) {
	holders := map[string]Holder{}
	staging := filepath.Join(root, StagingDir)
	claims, err := os.ReadDir(staging) // sorted: of two generations the newer one is last
	if err != nil {
		if isGone(err) {
			err = nil
		}
		return holders, err
	}
	for _, claim := range claims {
		if !isClaim(claim.Name()) || !claim.IsDir() {
			continue
		}
		inside, err := os.ReadDir(filepath.Join(staging, claim.Name()))
		if err != nil && !isGone(err) {
			return holders, err
		}
		for _, e := range inside {
			if who, ok := parseOwner(e.Name()); ok {
				holders[claim.Name()[:strings.LastIndexByte(claim.Name(), '.')]] = Holder{who.describe(), who.dead()}
			}
		}
	}
	return holders, nil
}
