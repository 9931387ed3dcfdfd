package family

var ErrName = errName
