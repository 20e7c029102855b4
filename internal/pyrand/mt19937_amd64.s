#include "textflag.h"

// Y0 to Y3 have the last words of the chains, eight each, Y8 the multiplier, Y9 a word of init or the number of the step, Y10 a one in each
// lane. SI points to the words of this step in the state, whose four parts have BLOCK bytes each. R8 has the keys of odd steps, R9 of even ones.

#define BLOCK 19968

#define MIX(Y, T) \
	VPSRLD $30, Y, T \
	VPXOR T, Y, Y \
	VPMULLD Y8, Y, Y

#define MIXALL \
	MIX(Y0, Y4) \
	MIX(Y1, Y5) \
	MIX(Y2, Y6) \
	MIX(Y3, Y7)

#define ADDKEYS(K) \
	VPADDD (K), Y0, Y0 \
	VPADDD 32(K), Y1, Y1 \
	VPADDD 64(K), Y2, Y2 \
	VPADDD 96(K), Y3, Y3

#define XORSTATE \
	VPXOR (SI), Y0, Y0 \
	VPXOR BLOCK(SI), Y1, Y1 \
	VPXOR (2*BLOCK)(SI), Y2, Y2 \
	VPXOR (3*BLOCK)(SI), Y3, Y3

#define STORE \
	VMOVDQU Y0, (SI) \
	VMOVDQU Y1, BLOCK(SI) \
	VMOVDQU Y2, (2*BLOCK)(SI) \
	VMOVDQU Y3, (3*BLOCK)(SI)

// FIRST is a step of the first pass, with a word of init.
#define FIRST(INIT, K) \
	VPBROADCASTD INIT, Y9 \
	MIXALL \
	VPXOR Y9, Y0, Y0 \
	VPXOR Y9, Y1, Y1 \
	VPXOR Y9, Y2, Y2 \
	VPXOR Y9, Y3, Y3 \
	ADDKEYS(K) \
	STORE

// SECOND is a step of the second pass.
#define SECOND \
	MIXALL \
	XORSTATE \
	VPSUBD Y9, Y0, Y0 \
	VPSUBD Y9, Y1, Y1 \
	VPSUBD Y9, Y2, Y2 \
	VPSUBD Y9, Y3, Y3 \
	STORE

// SPREAD puts a number into all lanes of a register.
#define SPREAD(N, X, Y) \
	MOVL $N, AX \
	VMOVD AX, X \
	VPBROADCASTD X, Y

// func seedAVX2(state *[Lanes / 8][mtN][8]uint32, init *[mtN]uint32, keys *mtKeys)
TEXT ·seedAVX2(SB), NOSPLIT, $0-24
	MOVQ state+0(FP), DI
	MOVQ init+8(FP), DX
	MOVQ keys+16(FP), R8
	LEAQ 128(R8), R9

	SPREAD(1664525, X8, Y8)
	VPBROADCASTD (DX), Y0
	VMOVDQU Y0, Y1
	VMOVDQU Y0, Y2
	VMOVDQU Y0, Y3
	MOVQ DI, SI
	MOVQ $311, CX // steps 1 to 622
first:
	ADDQ $32, SI
	FIRST(4(DX), R8)
	ADDQ $32, SI
	FIRST(8(DX), R9)
	ADDQ $8, DX
	DECQ CX
	JNZ first
	ADDQ $32, SI
	FIRST(4(DX), R8)
	LEAQ 32(DI), SI // step 624 wraps around: from word 623 to word 1
	MIXALL
	XORSTATE
	ADDKEYS(R9)
	STORE

	SPREAD(1566083941, X8, Y8)
	SPREAD(1, X10, Y10)
	VMOVDQU Y10, Y9
	MOVQ $622, CX // steps 2 to 623
second:
	ADDQ $32, SI
	VPADDD Y10, Y9, Y9
	SECOND
	DECQ CX
	JNZ second
	LEAQ 32(DI), SI // and again to word 1
	VMOVDQU Y10, Y9
	SECOND

	SPREAD(0x80000000, X0, Y0)
	VMOVDQU Y0, Y1
	VMOVDQU Y0, Y2
	VMOVDQU Y0, Y3
	MOVQ DI, SI
	STORE
	VZEROUPPER
	RET
