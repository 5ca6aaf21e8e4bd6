// expect: conversion from 'const char [5]' to non-scalar type 'weft::Error' requested
#include "weft/error.hpp"

weft::Error error = "text";  // explicit: no text turns into an error by accident
