package special

import "math"

// LogHalfRatio returns log( Γ(x+1/2) / (Γ(x) √x) ) for x > 0. It tends to 0 like
// −1/(8x), which is lost when two values of lgamma are subtracted.
//
// Large x: the Stirling series −1/(8x) + 1/(192x³) − 1/(640x⁵) + 17/(14336x⁷) − …;
// small x: shifted up by Γ(x+1) = xΓ(x).
func LogHalfRatio(x float64) float64 {
	shift := 0.0
	for ; x < 16; x++ {
		// f(x) − f(x+1) = log( x/(x+1/2) ) + ½ log((x+1)/x) = ½ log( x(x+1)/(x+1/2)² ).
		shift += math.Log1p(-0.25/((x+0.5)*(x+0.5))) / 2
	}
	y := 1 / (x * x)
	return shift + (-1.0/8+y*(1.0/192+y*(-1.0/640+y*(17.0/14336+y*(-31.0/18432+y*691.0/180224)))))/x
}
