package coupling

var ErrName = errName
