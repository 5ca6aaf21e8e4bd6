"""Makes a WAV of 16 kHz: noise, a voice of formants that says some vowels and syllables, silence, noise."""
import sys, wave
import numpy as np

RATE = 16000
rng = np.random.default_rng(7)
VOWELS = {"a": (730, 1090, 2440), "i": (270, 2290, 3010), "u": (300, 870, 2240), "e": (530, 1840, 2480), "o": (570, 840, 2410)}

def resonate(x, frequency, width):
    r = np.exp(-np.pi * width / RATE); c = 2 * r * np.cos(2 * np.pi * frequency / RATE); y = np.zeros_like(x); a = b = 0.0
    for i, v in enumerate(x):
        a, b = v * (1 - r) + c * a - r * r * b, a
        y[i] = a
    return y

def vowel(name, seconds, pitch):
    n = int(seconds * RATE); t = np.arange(n) / RATE
    f0 = pitch * (1 + 0.03 * np.sin(2 * np.pi * 5 * t) - 0.1 * t / seconds)
    phase = np.cumsum(f0 / RATE); pulses = np.diff(np.floor(phase), prepend=0.0)
    x = pulses + 0.01 * rng.standard_normal(n)
    for f, w in zip(VOWELS[name], (80, 100, 140)): x = resonate(x, f, w)
    return x / np.abs(x).max() * np.minimum(1, np.minimum(t, seconds - t) / 0.03)

def consonant(seconds):
    n = int(seconds * RATE)
    return 0.15 * resonate(rng.standard_normal(n), 4500, 1500) * np.hanning(n)

def word(text, pitch):
    parts = []
    for c in text: parts.append(vowel(c, 0.16, pitch) if c in VOWELS else consonant(0.07))
    return np.concatenate(parts)
def silence(s): return np.zeros(int(s * RATE))
voice = np.concatenate([silence(.5), word("sakito", 120), silence(.06), word("mesanu", 130), silence(.7), word("hatiso", 190), word("kule", 170), silence(.5)])
audio = 0.35 * voice + 0.002 * rng.standard_normal(len(voice))
pcm = np.clip(np.round(audio * 32767), -32768, 32767).astype("<i2")
with wave.open(sys.argv[1], "wb") as f:
    f.setnchannels(1); f.setsampwidth(2); f.setframerate(RATE); f.writeframes(pcm.tobytes())
print(len(pcm) / RATE)
