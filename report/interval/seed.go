package interval

import (
	"crypto/sha256"
	"encoding/binary"
	"io"

	"github.com/agentx/agentx/internal/pyrand"
	"github.com/agentx/agentx/internal/regular"
)

// Seed starts the generator: the SHA-256 of the records of a run.
type Seed [sha256.Size]byte

// SeedOf returns the seed of a file of records; of those of several parts the SHA-256 of their digests, one behind the other.
func SeedOf(paths ...string) (s Seed, err error) {
	all := sha256.New()
	for _, path := range paths {
		if s, err = digest(path); err != nil {
			return s, err
		}
		all.Write(s[:])
	}
	if len(paths) != 1 {
		s = Seed(all.Sum(nil))
	}
	return s, nil
}

// digest returns the SHA-256 of a file.
func digest(path string) (s Seed, err error) {
	file, err := regular.Open(path)
	if err != nil {
		return s, err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return s, err
	}
	return Seed(h.Sum(nil)), nil
}

// With returns the seed of a comparison of two runs: the SHA-256 of both seeds.
func (s Seed) With(other Seed) Seed { return sha256.Sum256(append(s[:], other[:]...)) }

// generator is numpy's default_rng of the first eight bytes of the seed as a number, the lowest byte first.
func (s Seed) generator() *pyrand.PCG64 { return pyrand.NewPCG64(binary.LittleEndian.Uint64(s[:8])) }
