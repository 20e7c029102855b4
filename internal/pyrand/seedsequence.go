package pyrand

// mixEntropy mixes four words of entropy into the pool of numpy's SeedSequence.
func mixEntropy(pool [4]uint32) [4]uint32 {
	factor := uint32(0x43b0d7e5)
	hash := func(v uint32) uint32 {
		v ^= factor
		factor *= 0x931e8875
		v *= factor
		return v ^ v>>16
	}
	for k := range pool {
		pool[k] = hash(pool[k])
	}
	for from := range pool {
		for to := range pool {
			if from != to {
				v := 0xca01f9dd*pool[to] - 0x4973f715*hash(pool[from])
				pool[to] = v ^ v>>16
			}
		}
	}
	return pool
}

// expand turns SeedSequence's pool into eight words of state, as generate_state does. Each pair of words makes a 64-bit
// number, its low half first.
func expand(pool [4]uint32) (words [8]uint32) {
	factor := uint32(0x8b51f9dd)
	for k := range words {
		v := pool[k%len(pool)] ^ factor
		factor *= 0x58f38ded
		v *= factor
		words[k] = v ^ v>>16
	}
	return words
}
