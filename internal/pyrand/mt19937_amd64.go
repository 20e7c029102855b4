package pyrand

import "golang.org/x/sys/cpu"

var hasAVX2 = cpu.X86.HasAVX2

// seedAVX2 does what seedPlain does, with all chains side by side: eight in each of four registers.
//
//go:noescape
func seedAVX2(state *[Lanes / 8][mtN][8]uint32, init *[mtN]uint32, keys *mtKeys)
