package resume

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// LaneSeed returns the seed of a lane that plays a trace: doc/spec/replay.md 2.3. base is the operator's seed in decimal.
// It depends on nothing else, so what other lanes play does not change it.
func LaneSeed(base, trace string, lane int) uint64 {
	return hashSeed(base + ":" + trace + ":" + strconv.Itoa(lane))
}

func hashSeed(text string) uint64 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:])
}
