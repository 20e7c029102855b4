//go:build !amd64

package pyrand

const hasAVX2 = false

func seedAVX2(*[Lanes / 8][mtN][8]uint32, *[mtN]uint32, *mtKeys) {}
